package console

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"time"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/provider"
	"ebb/broker/risk"
)

// shown is what the page of a request says to one who decides, as text. It is drawn from
// and, as JSON, kept with the decision: drawn again from that, it is the same page (B6).
type shown struct {
	Version string    `json:"page"` // of the console's templates and style
	At      time.Time `json:"at"`   // when it was drawn
	For     string    `json:"for"`  // whom
	Request string    `json:"request"`
	Match   string    `json:"match_code"`
	Digest  string    `json:"digest"`

	Title   risk.Title `json:"title"`
	Length  string     `json:"length"` // of the credential
	Level   risk.Level `json:"level"`
	Undo    []string   `json:"undo,omitempty"`    // what can be undone
	Reasons []string   `json:"reasons,omitempty"` // for the level
	Unread  string     `json:"unread,omitempty"`  // why nobody can approve it: the facts are not understood
	Rows    []row      `json:"rows"`              // what changes
	Lines   []line     `json:"lines"`             // who asks, from where, for how long, why you
	Before  []line     `json:"before,omitempty"`  // what was asked before
	Agent   words      `json:"agent"`
}

// row is one line of what changes.
type row struct {
	Field   string `json:"field"`
	Now     string `json:"now"`
	Asked   string `json:"asked"`
	Changed bool   `json:"changed"`
}

// line is one fact with its label.
type line struct {
	Label string `json:"label"`
	Text  string `json:"text"`
	Name  bool   `json:"name,omitempty"` // Text is a name: it is drawn from left to right and never cut
	Warn  bool   `json:"warn,omitempty"` // not as it should be
	Path  string `json:"path,omitempty"` // page of the console about it
}

// words are the agent's, ready to be drawn.
type words struct {
	Text  string   `json:"text"`
	Notes []string `json:"notes,omitempty"`
	Rest  string   `json:"rest,omitempty"` // beyond what is shown at once
	Count int      `json:"count"`          // code points
	Hash  string   `json:"sha256"`         // of the raw bytes
	// Withheld: who looks may not see what the agent wrote.
	Withheld bool `json:"withheld,omitempty"`
}

// agentShown is how much of an agent's text is shown at once, in code points.
const agentShown = 600

func wordsOf(u agenttext.Untrusted) words {
	text, notes := agenttext.Show(u, agentShown)
	w := words{Text: text, Count: u.Len(), Hash: u.Hash()}
	for _, n := range notes {
		w.Notes = append(w.Notes, n.Text)
	}
	if w.Count > agentShown {
		w.Rest, _ = agenttext.Show(u, 0)
	}
	return w
}

// show computes what the page of r says to the person of v.
func (s *Console) show(v view, r broker.Request, before []broker.Request) shown {
	out := shown{
		Version: s.version, At: v.Now.UTC(), For: v.Who.ID, Request: r.ID, Match: r.Match, Digest: r.Digest,
		Title: risk.TitleOf(r.Scopes, r.Provider), Length: span(r.TTL.Duration()), Agent: wordsOf(r.Reason), Before: beforeOf(v, r, before),
	}
	out.Agent.Withheld = !broker.ReadsWords(v.Who.Principal, r) && r.Reason.Len() == 0 // who approves alone reads them, too
	f, err := r.Sheet()
	switch {
	case err != nil:
		out.Unread = broker.AsError(err).Public
	case !f.Understood():
		out.Unread = "ebb does not know what this scope allows. It can be denied, not approved; the operator of the provider can say more."
	}
	if err != nil || f.Then == nil || f.Risk == nil || f.Effect == nil {
		out.Level = risk.High
		out.Rows = []row{{Field: "Scope", Asked: r.Scopes.String(), Changed: true}}
		out.Lines = []line{{Label: "Task", Text: r.TaskID, Name: true}, {Label: "Owner", Text: r.Owner, Name: true}}
		return out
	}
	out.Level, out.Undo = f.Risk.Level, undo(*f.Effect)
	for _, reason := range f.Risk.Top() {
		out.Reasons = append(out.Reasons, reason.Text)
	}
	for _, c := range f.Then.Changes {
		out.Rows = append(out.Rows, row{fields[c.Field], c.Now, c.Asked, c.Changed})
	}
	out.Lines = linesOf(v, r, f)
	return out
}

// undo says whether what is done with it can be undone, and then what ebb knows of that.
func undo(e risk.Effect) []string {
	out := []string{map[provider.Answer]string{provider.Yes: "Can it be undone? Yes.", provider.No: "Can it be undone? No."}[e.Reversible]}
	if out[0] == "" {
		out[0] = "Can it be undone? Nobody knows: assume not."
	}
	for _, s := range e.Sentences {
		// Of what also changes something, that a part of it only reads is no comfort.
		if e.Writes == provider.No || s != provider.Reading().Sentence {
			out[0] += " " + s
		}
	}
	return out
}

// fields are the words for the rows of what changes.
var fields = map[risk.Field]string{
	risk.FieldPermission: "Permission", risk.FieldResource: "Resource", risk.FieldAudience: "At", risk.FieldTime: "Time", risk.FieldBinding: "Held by",
}

// versionOf names what pages are drawn by: every template and the style.
func versionOf() (string, error) {
	h := sha256.New()
	for _, dir := range []fs.FS{templates, embedded} {
		err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(dir, path)
			h.Write([]byte(path))
			h.Write(b)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// table is rows with the words above them.
type table struct {
	Caption, Left, Right string
	Rows                 []row
}

// problem is what is wrong with a field of a form.
type problem struct{ ID, Text string }
