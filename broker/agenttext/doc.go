// Package agenttext holds text that left a sandbox and draws it so that nothing
// can hide in it. Such text is data: it is never parsed, never decides, routes,
// sorts or deduplicates anything; it may only raise a warning.
//
// The way of a text:
//
//  1. untrusted.go  New or From takes it into custody. By accident it prints as
//     a marker: the only ways out are Raw (callers are listed in a test), JSON
//     and Show.
//  2. json.go       as JSON it is an ASCII string that restores the raw bytes.
//  3. show.go       Show and ShowLine draw it for pages, terminals and logs.
//  4. class.go      which code points may be drawn as themselves.
//  5. notes.go      what a reader should know about it: hidden characters, runs,
//     mixed scripts, claims of approval (claims.go lists the words).
//  6. code.go       Code draws a statement or a script, of which every character counts.
//  7. name.go       Name draws a name, which is not an agent's, by the same classes.
//  8. name.go       CSVCell keeps a spreadsheet from running it.
package agenttext
