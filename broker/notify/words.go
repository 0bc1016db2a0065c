package notify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/agenttext"
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
	Waiting: "waits for you", Escalated: "still waits after half of its waiting time", Approved: "was approved", Denied: "was denied", Expired: "expired without a decision", Withdrawn: "was withdrawn",
	TaskPaused: "ebb has paused a task of yours", BreakGlass: "Break-glass", Draft: "A policy draft waits for a second person", Test: "A test: this channel works",
}

// Heading summarizes the notice. It contains only ebb's own words and a match code, no name.
func (n Notice) Heading() string {
	switch h, known := headings[n.Event]; {
	case !known:
		return "An event that this version of ebb does not know"
	case n.Event.Open() || n.Event.over():
		return risk(n.Risk) + strings.TrimSpace("request "+matchCode.FindString(n.Match)) + " " + h
	default:
		return h
	}
}

var matchCode = lazyregexp.New(`^[A-Z]{1,16}-[0-9]{1,4}$`)

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
	for _, o := range n.Only[:min(len(n.Only), MaxOnly+1)] {
		add("Only this", o, maxLine)
	}
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
	var waits, over int
	for _, n := range m.Notices {
		if n.Event.Open() {
			waits++
		} else if n.Event.over() {
			over++
		}
	}
	wait := number(waits, "request waits for you", "requests wait for you")
	switch total := len(m.Notices) + m.More; total {
	case waits:
		return wait
	case over:
		return number(over, "request ended", "requests ended")
	case waits + over:
		return fmt.Sprintf("%s, %d ended", wait, over)
	default:
		return strconv.Itoa(total) + " notifications"
	}
}

func number(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + several
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

// Text makes a name or a short text safe to show: no character in it can hide, reorder or
// imitate other text. The result is one line of at most limit code points. A longer text
// loses its middle, because the beginning and the end distinguish paths.
func Text(s string, limit int) string {
	out := agenttext.Name(s)
	n := utf8.RuneCountInString(out)
	if n <= limit {
		return out
	}
	const gap = " ... "
	keep := max(limit-len(gap), 2)
	runes := []rune(out)
	return string(runes[:keep/2]) + gap + string(runes[n-(keep-keep/2):])
}
