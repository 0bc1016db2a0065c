// Package slack hands messages over to an incoming webhook of Slack, as blocks.
//
//	config.go  Config, New, Send
//	blocks.go  the payload: plain text alone, and no control that somebody could press
//
// Nothing is mrkdwn: names stand in plain_text with emoji off and in text elements of
// rich_text, which Slack does not read for markup, mentions or pictures. The text for
// small screens has words of ebb's alone. The one link is a link element, not a button.
package slack
