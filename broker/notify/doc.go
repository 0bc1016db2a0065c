// Package notify is the contract of channels that notify people of pending requests and events. A
// message holds facts and a link, never a control for deciding and never an agent's text.
//
//	notice.go   Event, Notice: typed facts; Message: notices for one destination or
//	            person
//	words.go    texts: the only place that makes text from facts, and names safe to
//	            show
//	sender.go   Sender: the interface of a kind; its errors decide about retries. Key:
//	            secrets of channels, from a file or a variable
//	post.go     Post, Status: the shared part of kinds over HTTP; Hook: a Sender with a secret URL
//	outbox.go   Outbox, Sources: the functions that the database provides
//
// Each sub-folder implements one kind of channel. A kind delivers a Message in one way;
// package notifier decides the recipients, the time and the retries. A kind lays out and
// escapes the texts of words.go; it adds no texts about a notice.
package notify
