// Package agenttexttest holds the hostile texts that every output of ebb is tested with:
// pages, tables, CSV, JSON, logs, notifications. A text that fooled one of them is added to
// testdata/hostile, and from then on is tried on all.
//
//	corpus.go  Hostile
//	clean.go   Clean, ASCII: what no output may hold
package agenttexttest
