// Package policyadmin drafts policies, tests drafts with queries, replays them over recorded
// decisions, and publishes them when a second person agrees.
package policyadmin
