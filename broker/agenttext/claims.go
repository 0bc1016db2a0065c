package agenttext

import (
	"strings"
	"unicode"
)

// Words of ebb's own pages, of authority and of hurry, as plainWords writes them.
// The lists warn; a text that avoids them gains nothing.
const (
	ours   = " agent text | end of the agent text | ebb has | ebb verified | verified by ebb | checked by ebb | computed by | approve or deny | approve as requested | approve as asked | approve narrower | approve alone | approve a narrower | approve and | if you approve | you would approve | reason for denying | choose a reason | note to the agent | note to the agents | high risk | medium risk | low risk | match code | none of it is verified | all other facts | other facts | what the rule does | newest actions in the task | people must approve | reversible yes | reversible no | reversible unknown | sql text of the agent | end of the sql text | allowed once beside the scope | whole text | approving is off | can it be undone | changes since the request | under break glass | the agent gave no reason | no longer waiting | you have answered | next request | type the name | type a scope | only the part of | draft a policy rule | the ticked requests | narrower scope | within the requested scope "
	claims = " approved | preapproved | pre approved | approval | authorized | authorised | verified | whitelisted | allowlisted | signed off | sign off | policy says | policy allows | security team | admin says | already reviewed | been reviewed | cleared by | granted by | lgtm "
	hurry  = " urgent | urgently | immediately | asap | emergency | hurry | right now | at once | ignore | disregard | override | bypass | you must | just click | click approve | do not check | no need to | system prompt "
)

// labels are words of ebb's own pages that are common elsewhere. A line counts
// if it has only such a label, as a button has, or if it begins with "approve", as the label of the
// button that approves does.
var labels = map[string]bool{
	" answers ": true, " confirmation ": true, " approve ": true, " approved ": true, " check ": true, " decide ": true, " denied ": true, " deny ": true,
	" minutes ": true, " not understood ": true, " note ": true, " now ": true, " requested ": true, " unchanged ": true,
}

// labelled counts the lines of raw that look like a label or a button of ebb's pages.
func labelled(raw string) int {
	n := 0
	for line := range strings.SplitSeq(raw, "\n") {
		if words := plainWords(line); labels[words] || strings.HasPrefix(words, " approve ") {
			n++
		}
	}
	return n
}

// matches counts the phrases of list that occur in text.
func matches(text, list string) int {
	n := 0
	for phrase := range strings.SplitSeq(list, "|") {
		if strings.Contains(text, phrase) {
			n++
		}
	}
	return n
}

// plainWords is raw in lower case with single spaces between words, without
// marks and hidden characters, so that splitting a word with them does not
// keep it from being noticed.
func plainWords(raw string) string {
	var b strings.Builder
	b.WriteByte(' ')
	space := true
	for _, r := range raw {
		switch {
		case unicode.IsLetter(r) && drawable(r):
			b.WriteRune(unicode.ToLower(r))
			space = false
		case unicode.In(r, unicode.M, unicode.Cf) || r != '\n' && !drawable(r) && !unicode.In(r, unicode.Z, unicode.So, unicode.Cc):
		case !space:
			b.WriteByte(' ')
			space = true
		}
	}
	if !space {
		b.WriteByte(' ')
	}
	return b.String()
}
