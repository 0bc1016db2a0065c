// Package slack delivers messages to an incoming webhook of Slack, as blocks.
//
//	config.go  Config, New, Send
//	blocks.go  the payload: plain text without any controls
//
// No text is mrkdwn. Names are in plain_text with emoji off and in text elements of
// rich_text, in which Slack interprets no markup, mentions or images. The text for small
// screens contains only ebb's own words. The only link is a link element, not a button.
package slack
