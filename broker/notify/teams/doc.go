// Package teams lays out messages for a workflow of Microsoft Teams that begins with "When a Teams
// webhook request is received", as an Adaptive Card. The older Office 365 connectors are retired.
//
// Names are in text runs, in which Teams interprets no Markdown. Buttons only open pages.
package teams
