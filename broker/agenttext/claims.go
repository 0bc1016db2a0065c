package agenttext

import (
	"strings"
	"unicode"
)

// Words of authority and of hurry, as plainWords writes them. The lists warn;
// a text that avoids them gains nothing.
const (
	claims = " approved | preapproved | pre approved | approval | authorized | authorised | verified | whitelisted | allowlisted | signed off | sign off | policy says | policy allows | security team | admin says | already reviewed | been reviewed | cleared by | granted by | lgtm "
	hurry  = " urgent | urgently | immediately | asap | emergency | hurry | right now | at once | ignore | disregard | override | bypass | you must | just click | click approve | do not check | no need to | system prompt "
)

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
