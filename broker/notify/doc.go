// Package notify is the contract of what tells people that something waits for them:
// facts and a link, never a way to decide and never an agent's words.
//
//	notice.go   Event, Notice: what is told, as typed facts
//	words.go    the words of it: the one place that makes text of facts; text.go how a
//	            name is drawn so that nothing hides in it
//	message.go  Message: notices on the way to one place or person
//	sender.go   Sender: what a kind does; its errors say what follows
//	post.go     Post: what kinds over HTTP have in common
//	secret.go   secrets of channels: from a file or a variable
//	outbox.go   Outbox, Sources: what is asked of the database
//
// A kind is a sub-folder: it hands a Message over in one way, and knows nothing of who
// should be told what, when, or how often. That is package notifier, which also tries
// again. A kind lays out the words of words.go and escapes them for its format; it makes
// no words of its own.
package notify
