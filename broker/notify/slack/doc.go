// Package slack lays out messages for an incoming webhook of Slack, as blocks.
//
// No text is mrkdwn. Names are in plain_text with emoji off and in text elements of
// rich_text, in which Slack interprets no markup, mentions or images. The text for small
// screens contains only ebb's own words. Buttons only open pages.
package slack
