package notify

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits for texts in notices, in code points: a notice must be readable at a glance.
const (
	maxTitle = 140
	maxName  = 80
	maxLine  = 120
)

// Line is one fact with its label.
type Line struct{ Label, Text string }

var headings = map[Event]string{
	Waiting: "waits for you", Escalated: "still waits after half of its waiting time", Approved: "was approved", Denied: "was denied",
	Expired: "expired without a decision", Withdrawn: "was withdrawn",
}

// Heading summarizes the notice. It contains only ebb's own words, no name.
func (n Notice) Heading() string {
	if h, of := headings[n.Event]; of {
		return risk(n.Risk) + "request " + n.code() + h
	}
	switch n.Event {
	case TaskPaused:
		return "ebb has paused a task of yours"
	case BreakGlass:
		return "Break-glass"
	case Draft:
		return "A policy draft waits for a second person"
	case Test:
		return "A test: this channel works"
	}
	return "An event that this version of ebb does not know"
}

// code returns the match code and a space, or "" if Match is not a match code: a heading
// contains no other text from outside.
func (n Notice) code() string {
	if !matchCode.MatchString(n.Match) {
		return ""
	}
	return n.Match + " "
}

var matchCode = regexp.MustCompile(`^[A-Z]{1,16}-[0-9]{1,4}$`)

// levels are the levels of risk, the highest first.
var levels = []string{"high", "medium", "low"}

// risk returns the risk level as a prefix, or "" for an unknown level.
func risk(level string) string {
	if !slices.Contains(levels, level) {
		return ""
	}
	return strings.ToUpper(level[:1]) + level[1:] + " risk: "
}

// Lines returns the facts of the notice, most important first, made safe to show.
func (n Notice) Lines(at time.Time) []Line {
	var out []Line
	add := func(label, text string, limit int) {
		if text != "" {
			out = append(out, Line{label, Text(text, limit)})
		}
	}
	add("What", n.Title, maxTitle)
	for _, r := range n.Reasons[:min(len(n.Reasons), 3)] {
		add("Why", r, maxLine)
	}
	add("Task", n.TaskName, maxName)
	add("Task id", n.TaskID, maxName)
	add("Owner", n.Owner, maxName)
	add("By", n.By, maxName)
	add("Granted", n.Granted, maxTitle)
	add("Reason", strings.ReplaceAll(n.Code, "_", " "), maxName)
	if n.Event.Open() && !n.Until.IsZero() {
		add("Time left", fmt.Sprintf("%s, until %s", left(n.Until.Sub(at)), n.Until.UTC().Format("15:04 MST")), maxLine)
	}
	return out
}

// left returns a duration in words, rounded down.
func left(d time.Duration) string {
	if d < time.Minute {
		return "less than a minute"
	}
	if d < 2*time.Hour {
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d/time.Hour)) + " h"
}

// Heading summarizes the message in ebb's own words.
func (m Message) Heading() string {
	if !m.Digest && len(m.Notices) == 1 {
		return m.Notices[0].Heading()
	}
	waits, over := m.count(Event.Open), m.count(Event.over)
	total := len(m.Notices) + m.More
	wait := map[bool]string{true: "1 request waits for you", false: strconv.Itoa(waits) + " requests wait for you"}[waits == 1]
	switch {
	case waits == total:
		return wait
	case over == total:
		return map[bool]string{true: "1 request ended", false: strconv.Itoa(over) + " requests ended"}[over == 1]
	case waits+over == total:
		return fmt.Sprintf("%s, %d ended", wait, over)
	}
	return strconv.Itoa(total) + " notifications"
}

func (m Message) count(is func(Event) bool) (n int) {
	for _, x := range m.Notices {
		if is(x.Event) {
			n++
		}
	}
	return n
}

// Part is a paragraph of a message: a notice and its page, or the number of further notices.
type Part struct {
	Heading string // "" = the heading of the message says it
	Lines   []Line
	Label   string // of the link
	Link    string
}

// Parts returns the text below the heading of m, with no more notices than most.
func (m Message) Parts(most int) []Part {
	shown, more := m.Shown(most)
	var out []Part
	for _, n := range shown {
		p := Part{Lines: n.Lines(m.At), Label: "Open in ebb", Link: m.Link(n)}
		if m.Digest || len(shown)+more > 1 {
			p.Heading = n.Heading()
		}
		out = append(out, p)
	}
	if more > 0 {
		out = append(out, Part{Heading: fmt.Sprintf("and %d more", more), Label: "Open the approval queue", Link: m.Base + "/queue"})
	}
	return out
}

// Shown returns the notices that a message shows in full, highest risk first, and how
// many it leaves out.
func (m Message) Shown(most int) ([]Notice, int) {
	list := slices.Clone(m.Notices)
	rank := func(n Notice) int { return slices.Index(levels, n.Risk) } // -1: the notice has no risk, and comes first
	slices.SortStableFunc(list, func(a, b Notice) int { return rank(a) - rank(b) })
	n := min(len(list), most)
	return list[:n], len(list) - n + m.More
}
