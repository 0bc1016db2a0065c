SELECT 1
SELECT
SELECT NULL, true, false, 1.5e3, 'text', E'esc\'aped', $$dollar$$, B'101', X'1F', U&'d\0061t'
SELECT 'two'
SELECT * FROM t
SELECT t.* FROM public.t
SELECT ALL a FROM t
SELECT DISTINCT b FROM t
SELECT DISTINCT ON (b) b, lower(b) FROM t ORDER BY b, a DESC NULLS LAST
SELECT DISTINCT ON (a % 2) left(b, 1) FROM t
SELECT a AS "A", b AS from, c timestamp_of FROM t
SELECT a + 1, -a, a * 2 / 3 % 4, a ^ 2, |/ 16.0, @ a, a # 1, ~ a, a << 1 FROM t
SELECT a FROM t WHERE a = 1 OR a <> 2 AND NOT a >= 3
SELECT a FROM t WHERE b LIKE 'b%' AND b NOT LIKE ('x' || '%') AND b ILIKE ('B' || '%') AND b NOT ILIKE 'c%' ESCAPE '!'
SELECT a FROM t WHERE b SIMILAR TO '(a|b)%' AND b ~ '^b' AND b !~* 'x'
SELECT a FROM t WHERE a BETWEEN 1 AND 5 AND a NOT BETWEEN SYMMETRIC 9 AND 7
SELECT a FROM t WHERE a IN (1, 2, 3) AND a NOT IN (SELECT a FROM u WHERE n > 5)
SELECT a FROM t WHERE b IS NULL OR b IS NOT NULL OR b ISNULL OR b NOTNULL
SELECT a FROM t WHERE (a > 1) IS TRUE AND (a > 9) IS NOT UNKNOWN
SELECT a FROM t WHERE a IS DISTINCT FROM 3 AND a IS NOT DISTINCT FROM a
SELECT a FROM t WHERE a = ANY (ARRAY[1, 2]) AND a <> ALL ('{3,4}'::int[]) AND a = SOME (e)
SELECT a FROM t WHERE EXISTS (SELECT FROM u WHERE u.a = t.a) AND NOT EXISTS (TABLE logged)
SELECT a FROM t WHERE (a, b) = (1, 'b1') OR ROW(a, b) > ROW(5, 'x')
SELECT a FROM t WHERE (a, b) IN (SELECT a, 'b1' FROM u)
SELECT a FROM t WHERE (c, interval '1 day') OVERLAPS (now(), interval '1 year')
SELECT CASE WHEN a > 3 THEN 'big' WHEN a IS NULL THEN 'none' ELSE 'small' END FROM t
SELECT CASE a WHEN 1 THEN 'one' ELSE upper(b) END FROM t
SELECT COALESCE(b, 'x'), NULLIF(a, 1), GREATEST(a, 3), LEAST(a, 2) FROM t
SELECT CAST(a AS numeric(10, 2)), a::text, '5'::int, b::varchar(3), a::character varying(4), a::double precision FROM t
SELECT int4 '5', date '2020-01-01', interval '1' day, interval(3) '1.23456 s', timestamp(0) with time zone '2020-01-01', time '10:00'
SELECT 'happy'::text, ARRAY[1, 2, 3], ARRAY[[1], [2]], ARRAY(SELECT a FROM t), '{1,2}'::int[]
SELECT e[1], e[1:2], e[:1], (ARRAY[1, 2])[2], (e)[a % 2 + 1] FROM t
SELECT d -> 'k', d ->> 'k', d #> '{k}', d @> '{"k": 1}', d ? 'k' FROM t
SELECT d['k'] FROM t WHERE jsonb_path_exists(d, '$.k ? (@ > 3)')
SELECT EXTRACT(year FROM c), date_part('month', c), EXTRACT('epoch' FROM c) FROM t
SELECT SUBSTRING(b FROM 1 FOR 2), SUBSTRING(b FOR 1), substring(b, 2), SUBSTRING(b FROM '[0-9]+') FROM t
SELECT TRIM(b), TRIM(BOTH 'b' FROM b), TRIM(LEADING FROM b), OVERLAY(b PLACING 'x' FROM 1 FOR 1), POSITION('1' IN b) FROM t
SELECT c AT TIME ZONE 'UTC', b COLLATE "C", collation for (b) FROM t
SELECT current_date, current_timestamp, current_timestamp(0), localtime, localtimestamp, now(), clock_timestamp(), statement_timestamp()
SELECT current_user, session_user, user, current_role, current_catalog, current_schema, current_schema(), current_database(), version()
SELECT concat_ws(',', a, b), format('%s-%I', a, b), repeat('x', 3), reverse(b), md5(b), length(b), replace(b, 'b', 'c') FROM t
SELECT regexp_replace(b, 'b', 'c', 'g'), split_part(b, 'b', 2), string_to_array(b, 'b'), translate(b, 'b', 'c') FROM t
SELECT round(1.234, 2), ceil(1.2), floor(1.8), trunc(1.9), abs(-1), mod(5, 3), power(2, 3), sqrt(4), ln(1), random() < 2
SELECT to_char(c, 'YYYY-MM-DD'), to_date('2020', 'YYYY'), to_number('12', '99'), date_trunc('day', c), age(c), make_date(2020, 1, 1) FROM t
SELECT gen_random_uuid() IS NOT NULL, encode('abc', 'hex'), decode('00', 'hex'), sha256('x')
SELECT count(*), count(DISTINCT b), sum(a), avg(a), min(b), max(b), bool_and(a > 0), every(a > 0) FROM t
SELECT array_agg(a ORDER BY a DESC), string_agg(b, ',' ORDER BY b), json_agg(t), jsonb_object_agg(a, b) FROM t
SELECT count(*) FILTER (WHERE a > 3), percentile_cont(0.5) WITHIN GROUP (ORDER BY a), mode() WITHIN GROUP (ORDER BY b) FROM t
SELECT b, count(*) FROM t GROUP BY b HAVING count(*) > 0 ORDER BY 2 DESC, b
SELECT a, b, count(*) FROM t GROUP BY GROUPING SETS ((a), (b), ()) ORDER BY a, b
SELECT a, b, GROUPING(a, b) FROM t GROUP BY ROLLUP (a, b)
SELECT a, b FROM t GROUP BY CUBE (a, (b, c)), ROLLUP (d)
SELECT a FROM t GROUP BY GROUPING SETS (a, ROLLUP (b, c), CUBE (d, e))
SELECT a FROM t GROUP BY DISTINCT ROLLUP (a), ROLLUP (a)
SELECT row_number() OVER (), rank() OVER (ORDER BY a), lag(a, 1) OVER w, first_value(b) OVER (PARTITION BY a % 2 ORDER BY a) FROM t WINDOW w AS (ORDER BY a DESC)
SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), avg(a) OVER (ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM t
SELECT sum(a) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP), max(a) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE NO OTHERS) FROM t WINDOW w AS (ORDER BY a)
SELECT sum(a) OVER (w ROWS UNBOUNDED PRECEDING), ntile(4) OVER w, count(*) FILTER (WHERE a > 1) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY a)
SELECT a FROM t ORDER BY a USING < LIMIT 5 OFFSET 2
SELECT a FROM t ORDER BY a LIMIT ALL
SELECT a FROM t ORDER BY a OFFSET 1 ROWS FETCH FIRST 3 ROWS ONLY
SELECT a FROM t ORDER BY a FETCH NEXT (1 + 1) ROWS WITH TIES
SELECT a FROM t LIMIT (SELECT count(*) FROM u)
SELECT * FROM t JOIN u ON t.a = u.a
SELECT * FROM t INNER JOIN u USING (a)
SELECT * FROM t LEFT OUTER JOIN u USING (a) AS j RIGHT JOIN tree ON tree.id = j.a
SELECT * FROM t NATURAL JOIN u
SELECT * FROM t CROSS JOIN u, tree
SELECT * FROM t FULL JOIN u ON left(t.b, 1) = right(u.a::text, 1) AND t.a = u.a, tree WHERE false
SELECT * FROM (t JOIN u ON t.a = u.a) JOIN tree ON true
SELECT * FROM (t CROSS JOIN u) AS j (c1, c2, c3, c4, c5, c6, c7, c8)
SELECT * FROM ((SELECT 1 AS x) q JOIN tree ON tree.id = q.x)
SELECT * FROM t x, LATERAL (SELECT * FROM u WHERE u.a = x.a) y
SELECT * FROM t LEFT JOIN LATERAL (SELECT n FROM u WHERE u.a = t.a LIMIT 1) y ON true
SELECT * FROM ONLY t
SELECT * FROM ONLY (parts)
SELECT * FROM parts * WHERE b = 'x'
SELECT * FROM t AS x (c1, c2)
SELECT * FROM (SELECT a, b FROM t) AS x (c1, c2), (VALUES (1, 'x'), (2, 'y')) y (d1, d2)
SELECT * FROM ((SELECT 1) UNION (SELECT 2)) x
SELECT * FROM (((SELECT a FROM t))) x
SELECT * FROM t TABLESAMPLE BERNOULLI (50) REPEATABLE (1)
SELECT * FROM t x TABLESAMPLE SYSTEM (10)
SELECT * FROM generate_series(1, 3)
SELECT * FROM generate_series(1, 3) AS g (i), unnest(ARRAY['a', 'b']) WITH ORDINALITY AS x (v, o)
SELECT * FROM ROWS FROM (generate_series(1, 2), unnest(ARRAY[1, 2, 3])) AS x (p, q)
SELECT * FROM json_to_recordset('[{"a": 1}]') AS x (a int, b numeric(4, 1))
SELECT * FROM jsonb_each('{"a": 1}') j, jsonb_array_elements('[1]') k
SELECT * FROM coalesce(1, 2)
SELECT * FROM xmltable('/r/i' PASSING '<r><i>1</i></r>' COLUMNS i int PATH '.', o FOR ORDINALITY)
SELECT * FROM v
SELECT * FROM mv, "Odd Name"
SELECT "select", "Odd Name"."from" FROM "Odd Name"
SELECT (SELECT max(n) FROM u), (SELECT a FROM t WHERE t.a = u.a) FROM u
SELECT (x).a, (x.*).b, x FROM t x
SELECT row_to_json(x) FROM (SELECT a, b FROM t) x
SELECT 1 UNION SELECT 2 UNION ALL SELECT a FROM t INTERSECT SELECT a FROM u EXCEPT SELECT 3 ORDER BY 1
(SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL (SELECT a FROM u ORDER BY a DESC LIMIT 1) LIMIT 1
((SELECT 1))
TABLE t
TABLE ONLY t ORDER BY a LIMIT 1
VALUES (1, 'a'), (2, 'b') ORDER BY 1
VALUES ((SELECT max(a) FROM t))
WITH x AS (SELECT a FROM t) SELECT * FROM x
WITH x (i) AS MATERIALIZED (SELECT a FROM t), y AS NOT MATERIALIZED (SELECT i FROM x) SELECT * FROM x JOIN y USING (i)
WITH x AS (VALUES (1)) TABLE x
WITH RECURSIVE r (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r
WITH RECURSIVE r AS (SELECT id, parent FROM tree WHERE parent IS NULL UNION ALL SELECT c.id, c.parent FROM tree c JOIN r ON c.parent = r.id) SEARCH DEPTH FIRST BY id SET o SELECT * FROM r ORDER BY o
WITH RECURSIVE r AS (SELECT id, parent FROM tree WHERE id = 1 UNION ALL SELECT c.id, c.parent FROM tree c, r WHERE c.parent = r.id) CYCLE id SET looped TO true DEFAULT false USING path SELECT * FROM r
WITH x AS (WITH y AS (SELECT 1 AS i) SELECT i FROM y) SELECT i FROM x
WITH t AS (SELECT * FROM t) SELECT * FROM t
SELECT * FROM (WITH y AS (SELECT 1) SELECT * FROM y) z
SELECT to_tsvector('english', b) @@ to_tsquery('b1'), ts_rank(to_tsvector(b), plainto_tsquery('x')) FROM t
SELECT '[1,5)'::int4range @> 3, int4range(1, 3) && int4range(2, 4), lower('[1,2]'::numrange), isempty('empty'::int4range)
SELECT '10.0.0.1'::inet << '10.0.0.0/8'::cidr, host('10.0.0.1'), network('10.0.0.1/8'::inet)
SELECT point(1, 2) <-> point(3, 4), box '((0,0),(1,1))', area(box '((0,0),(2,2))'), circle(point(0, 0), 1)
SELECT xmlelement(name x, xmlattributes(1 AS y), 'z'), xmlforest(1 AS a), xmlconcat('<a/>', '<b/>')
SELECT array_length(e, 1), array_append(e, 1), array_position(e, 2), cardinality(e), array_to_string(e, ','), 3 = ANY (e) FROM t
SELECT t.whole FROM t WHERE false AND 1 OPERATOR(pg_catalog.=) 2
SELECT pg_typeof(1), pg_column_size(b), pg_size_pretty(10::bigint), pg_backend_pid(), pg_is_in_recovery() FROM t
SELECT pg_relation_size('t'), pg_total_relation_size('t'::regclass), pg_table_size('t'), pg_database_size(current_database())
SELECT 't'::regclass, 't'::regclass::oid, to_regclass('t'), 'lower(text)'::regprocedure
SELECT c.relname, n.nspname, pg_catalog.pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_toast' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1, 2
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = 't'::regclass AND a.attnum > 0
SELECT pg_get_viewdef('v'), pg_get_indexdef(indexrelid), pg_get_constraintdef(c.oid) FROM pg_index, pg_constraint c LIMIT 3
SELECT has_table_privilege('t', 'SELECT'), pg_has_role('pg_monitor', 'USAGE'), obj_description('t'::regclass, 'pg_class'), col_description('t'::regclass, 1)
SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position
SELECT * FROM pg_stat_user_tables, pg_settings LIMIT 1
SELECT datname, usename, state FROM pg_stat_activity
SELECT current_setting('search_path'), current_setting('x.y', true)
SELECT last_value FROM s
SELECT * FROM pg_sequences
SELECT txid_current_if_assigned(), pg_current_xact_id_if_assigned(), pg_current_snapshot()
SELECT 1; SELECT 2; SELECT a FROM t
SELECT 1;;
EXPLAIN SELECT * FROM t
EXPLAIN ANALYZE SELECT * FROM t WHERE a = 1
EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT * FROM t JOIN u USING (a)
EXPLAIN VERBOSE VALUES (1)
EXPLAIN (COSTS off) (SELECT 1)
EXPLAIN DECLARE c CURSOR FOR SELECT * FROM t
PREPARE q AS SELECT * FROM t WHERE a = 1
PREPARE q (int, varchar(3)) AS SELECT * FROM t WHERE a = $1 AND b = $2
DEALLOCATE ALL
DECLARE c CURSOR FOR SELECT * FROM t
DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a
DECLARE c SCROLL CURSOR FOR TABLE t; FETCH 2 FROM c; MOVE FORWARD ALL IN c; FETCH ABSOLUTE -1 FROM c; CLOSE c
COPY t TO STDOUT
COPY t (a, b) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';')
COPY (SELECT a FROM t WHERE a > 2 ORDER BY a) TO STDOUT WITH CSV HEADER
COPY (VALUES (1), (2)) TO STDOUT (FORMAT binary)
SHOW search_path
SHOW ALL
SHOW TIME ZONE
SET application_name = 'x'
SET application_name TO DEFAULT
SET SESSION statement_timeout = '5s'
SET LOCAL lock_timeout TO 100
SET TIME ZONE 'UTC'
SET datestyle = ISO, MDY
SET extra_float_digits = 3
SET client_encoding = 'UTF8'
SET NAMES 'utf-8'
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
SET TRANSACTION READ ONLY
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY
SET CONSTRAINTS ALL DEFERRED
RESET application_name
RESET ALL
SAVEPOINT a; RELEASE SAVEPOINT a; SAVEPOINT b; ROLLBACK TO b
UNLISTEN *
DISCARD PLANS
DISCARD SEQUENCES
-- only a comment
SELECT /* a */ 1 -- b
