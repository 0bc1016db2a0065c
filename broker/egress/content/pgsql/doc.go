// Package pgsql classifies the statements of a PostgreSQL session: which tables they read, and
// whether they write, define or administer anything.
//
//	classify.go    Classify, Settings, the actions and their classes
//	guard.go       Guard: decides about the statements of an open session
//	lex.go         tokens, by the lexical rules of PostgreSQL
//	cursor.go      reading tokens, names and types
//	findings.go    the operations found, and the objects that names refer to
//	statement.go   the kinds of statements; EXPLAIN, PREPARE, COPY, TRUNCATE, LOCK
//	query.go       SELECT, and expressions
//	from.go        FROM lists and WITH
//	change.go      INSERT, UPDATE, DELETE, MERGE
//	settings.go    SET, RESET, transactions
//	define.go      CREATE, ALTER, DROP and the commands of administrators
//	functions.go   functions and keywords; names/ has the lists
//
// A closed list of statements and functions counts as reading, so that anything that is not
// understood is never a read. A text that a server could split into other tokens is refused.
//
// The package sees names, not their definitions. Views, rules, operators, casts, functions that
// overload a built-in one, and functions in the notation of a column (t.f) belong to the database:
// if one of them writes, a statement that reads through it writes too. A session for reads
// therefore also needs default_transaction_read_only, set when it starts, which its statements
// cannot change without the action admin. A lease with the action ddl is limited by its role alone:
// it can define such objects.
package pgsql
