package pgsql

import (
	_ "embed" // the list
	"slices"
	"strings"
	"sync"
)

// functionList is sorted by byte. Its names are those of the functions of pg_catalog in PostgreSQL 15 of
// which every overload is immutable or stable, except functions that only operators and the server
// itself call, and functions that read tables by a name in an argument or assign a transaction id.
//
//go:embed names/functions.txt
var functionList string

var functions = sync.OnceValue(func() []string { return strings.Fields(functionList) })

// volatileReads are volatile functions that change nothing beyond their own session, and read no
// data of tables.
var volatileReads = strings.Fields("clock_timestamp currval gen_random_uuid lastval pg_database_size pg_indexes_size pg_is_in_recovery " +
	"pg_partition_ancestors pg_partition_tree pg_relation_size pg_table_size pg_tablespace_size pg_total_relation_size random timeofday")

// Functions of pg_catalog that take one argument and may write have these names, or names that begin so.
var (
	builtInNames    = strings.Fields("amvalidate brin_summarize_new_values gin_clean_pending_list nextval plpgsql_validator setseed ts_stat")
	builtInPrefixes = strings.Fields("binary_upgrade_ lo_ pg_ txid_")
)

// Keywords by the category in src/include/parser/kwlist.h (PostgreSQL 13 to 18).
var (
	// reservedWords name nothing without quotes.
	reservedWords = strings.Fields("all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create " +
		"current_catalog current_date current_role current_time current_timestamp current_user default deferrable desc distinct do else end except " +
		"false fetch for foreign from grant group having in initially intersect into lateral leading limit localtime localtimestamp not null offset " +
		"on only or order placing primary references returning select session_user some symmetric table then to trailing true union unique user " +
		"using variadic when where window with")
	// functionWords name only functions and types without quotes.
	functionWords = strings.Fields("authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join left like " +
		"natural notnull outer overlaps right similar tablesample verbose")
	// columnWords name anything but functions and types without quotes: before a parenthesis they are
	// types or expressions of SQL.
	columnWords = strings.Fields("between bigint bit boolean char character coalesce dec decimal exists extract float greatest grouping inout int " +
		"integer interval least national nchar none normalize nullif numeric out overlay position precision real row setof smallint substring " +
		"time timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot " +
		"xmlserialize xmltable")
)

func contains(sorted []string, s string) bool {
	_, found := slices.BinarySearch(sorted, s)
	return found
}

// reserved reports whether an unquoted word names no table and no column.
func reserved(w string) bool { return contains(reservedWords, w) || contains(functionWords, w) }

// neverFunction reports whether an unquoted word names no function.
func neverFunction(w string) bool { return contains(reservedWords, w) || contains(columnWords, w) }

// builtIn reports whether a name can be that of a built-in function that may write, with one argument.
func builtIn(f string) bool {
	return contains(builtInNames, f) || slices.ContainsFunc(builtInPrefixes, func(prefix string) bool { return strings.HasPrefix(f, prefix) })
}

// harmless reports whether a function is a built-in one that writes nothing. Without a schema, the
// database could have an overload that fits better.
func harmless(name []string) bool {
	f := name[len(name)-1]
	return (len(name) == 1 || len(name) == 2 && name[0] == "pg_catalog") && (contains(functions(), f) || contains(volatileReads, f))
}
