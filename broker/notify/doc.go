// Package notify is the contract of channels that notify people of pending requests and
// events. A message holds facts and a link, never a control for deciding and never an
// agent's text.
//
//	notice.go   Event, Notice: typed facts
//	words.go    texts: the only place that makes text from facts; text.go makes a
//	            name safe to show
//	message.go  Message: notices for one destination or person
//	sender.go   Sender: the interface of a kind; its errors decide about retries
//	post.go     Post: the shared part of kinds over HTTP
//	secret.go   secrets of channels: from a file or a variable
//	outbox.go   Outbox, Sources: the functions that the database provides
//
// Each sub-folder implements one kind of channel. A kind delivers a Message in one way;
// package notifier decides the recipients, the time and the retries. A kind lays out and
// escapes the texts of words.go; it adds no texts about a notice.
package notify
