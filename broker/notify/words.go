package notify

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
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

// risk returns the risk level as a prefix, or "" for an unknown level.
func risk(level string) string {
	switch level {
	case "high":
		return "High risk: "
	case "medium":
		return "Medium risk: "
	case "low":
		return "Low risk: "
	}
	return ""
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
	add("Match code", n.Match, maxName)
	add("Task", n.TaskID, maxName)
	add("Named", n.TaskName, maxName)
	add("Owner", n.Owner, maxName)
	add("By", n.By, maxName)
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
	switch total := len(m.Notices) + m.More; {
	case waits == total:
		return requests(total) + " " + verb(total) + " for you"
	case over == total:
		return requests(total) + " ended"
	case m.More == 0 && waits+over == total:
		return fmt.Sprintf("%s %s for you, %d ended", requests(waits), verb(waits), over)
	default:
		return strconv.Itoa(total) + " notifications"
	}
}

func (m Message) count(is func(Event) bool) int {
	n := 0
	for _, x := range m.Notices {
		if is(x.Event) {
			n++
		}
	}
	return n
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return strconv.Itoa(n) + " requests"
}

func verb(n int) string {
	if n == 1 {
		return "waits"
	}
	return "wait"
}

// Shown returns the notices that a message shows in full, highest risk first, and how
// many it leaves out.
func (m Message) Shown(most int) ([]Notice, int) {
	rank := map[string]int{"high": 0, "medium": 1, "low": 2}
	list := slices.Clone(m.Notices)
	slices.SortStableFunc(list, func(a, b Notice) int {
		ra, known := rank[a.Risk]
		if !known {
			ra = -1 // a notice without a risk is not for a request, and rarer
		}
		rb, known := rank[b.Risk]
		if !known {
			rb = -1
		}
		return ra - rb
	})
	n := min(len(list), most)
	return list[:n], len(list) - n + m.More
}
