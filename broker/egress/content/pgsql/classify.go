package pgsql

import (
	"fmt"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// The bounds of a text. A longer or deeper one is refused.
const (
	maxText  = 1 << 20 // bytes
	maxDepth = 100     // parentheses in parentheses
	maxNames = 100     // of WITH that are visible at one place
	maxName  = 63      // bytes; PostgreSQL truncates a longer name
)

// Actions of Operations.
const (
	Session  = "session"  // no data: BEGIN, SHOW, settings without effect on other statements
	Read     = "read"     // of the Object
	Insert   = "insert"   // also COPY FROM STDIN
	Update   = "update"   //
	Delete   = "delete"   //
	Truncate = "truncate" //
	Lock     = "lock"     // LOCK TABLE, SELECT FOR UPDATE
	Call     = "call"     // of a function or procedure (Object) that may write
	Define   = "ddl"      // CREATE, ALTER, DROP
	Admin    = "admin"    // of the server, roles, files, or a setting (Object) that decides about statements
	Unknown  = "unknown"  // anything that is not understood
)

// Reads reports whether an operation changes nothing.
func Reads(o content.Operation) bool { return o.Action == Session || o.Action == Read }

// unsettles reports whether an operation may change settings, or define what changes them in a later
// statement. The function of a Call may do anything.
func unsettles(o content.Operation) bool {
	return o.Action == Call || o.Action == Define || o.Action == Admin || o.Action == Unknown
}

// Settings are facts about a session that decide how the server reads a text. The zero value is
// safe: a text whose meaning depends on an unknown setting is refused.
type Settings struct {
	// StandardStrings reports that standard_conforming_strings is on.
	StandardStrings bool
	// UTF8 reports that client_encoding is UTF8.
	UTF8 bool
}

// Classify returns the operations of all statements in a text of the simple or the extended
// protocol. Objects are names such as "public.orders", quoted where SQL requires it. The schema "?"
// is one that the text does not state: search_path decides about it at the server. The object "?" may
// be any.
//
// Details: "where" is "no" for an UPDATE or DELETE without a condition that depends on the rows. In a
// MERGE, that condition is the one after ON. "statement" has the first words of a statement of the
// actions ddl, admin and unknown.
//
// An error (content.Error) is returned for a text that a server may read in another way.
func Classify(sql string, set Settings) (content.Facts, error) {
	tokens, err := lex(sql, set)
	if err != nil {
		return content.Facts{}, err
	}
	p := &parser{cursor: cursor{sql: sql, lower: lower(sql), all: tokens}, findings: findings{facts: content.Facts{Kind: "pgsql"}}}
	for p.at < len(p.all) {
		p.tokens = p.all[:p.at+statementLength(sql, p.all[p.at:])]
		if len(p.tokens) > p.at {
			p.statement()
		}
		p.at = len(p.tokens) + 1 // past the semicolon
	}
	if p.tooMany {
		return content.Facts{}, content.Refuse(fmt.Sprintf("the SQL text has more than %d operations", content.MaxOperations))
	}
	return p.facts, nil
}

// statementLength returns the number of tokens before the semicolon that ends a statement.
func statementLength(sql string, tokens []token) int {
	depth := 0
	for i, t := range tokens {
		if t.kind != sign {
			continue
		}
		switch sql[t.from] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ';':
			if depth == 0 {
				return i
			}
		}
	}
	return len(tokens)
}

// lower returns a text of the same length with ASCII letters in lower case. PostgreSQL folds other
// letters by the server's locale, if at all.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}
