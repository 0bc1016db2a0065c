// Package gitpush parses the body of a push over git's smart HTTP protocol, POST .../git-receive-pack,
// before it is forwarded. The facts name each ref that the push creates, updates, overwrites or
// deletes.
//
//	read.go      Read: headers, the order of the parts, and the body that is forwarded
//	prefix.go    the kept beginning of a body, and its pkt-lines
//	commands.go  the command section: shallow lines, capabilities, commands, push certificate
//	refname.go   names of refs that git accepts and people can read
//	refusal.go   the answer of a server that refuses a push
//	pack.go      the commits at the beginning of the pack
//	delta.go     commits that the pack states as a difference
//	judge.go     what each command does, and the proof that an update loses no commits
//
// An update is proven by content. A commit's id is the hash of its text, and its text names its
// parents. A chain of texts from the new id to the old one therefore proves a fast-forward, however
// the server reads the pack. Two texts with the same SHA-1 do not help: servers detect the known
// ways to make them and refuse the pack. All commits that git writes precede the trees, so that only
// the beginning of a pack is read.
//
// Some facts are the server's alone. A name that is a symbolic ref there stands for its target, and
// objects that no ref reaches may still be stored.
//
// Sources: gitprotocol-common, gitprotocol-pack, gitprotocol-capabilities, gitprotocol-http,
// gitformat-pack, and the behaviour of git's receive-pack.
package gitpush
