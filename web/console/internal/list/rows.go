package list

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// TranscriptsPath is the path of the list of transcripts.
const TranscriptsPath = "/transcripts"

// TaskReader reads the tasks that a person may read.
type TaskReader interface {
	Tasks(ctx context.Context, who broker.Principal, f broker.TaskFilter) ([]broker.Task, error)
}

// TaskNames returns the names of the tasks of rows, by id. Tasks that the person may not
// read are left out.
func TaskNames[Row any](ctx context.Context, b TaskReader, who broker.Principal, rows []Row, id func(Row) string) (map[string]string, error) {
	names := map[string]string{}
	for _, r := range rows {
		names[id(r)] = ""
	}
	delete(names, "")
	if len(names) == 0 {
		return names, nil
	}
	ts, err := b.Tasks(ctx, who, broker.TaskFilter{IDs: slices.Collect(maps.Keys(names)), Page: broker.Page{Limit: len(names)}})
	for _, t := range ts {
		names[t.ID] = t.Name
	}
	return names, err
}

// EntryReader is the part of the core that lists of audit entries call.
type EntryReader interface {
	TaskReader
	EntryList(ctx context.Context, who broker.Principal, q broker.EntryQuery) (broker.EntrySlice, error)
	MayReadTranscripts(who broker.Principal) error
	TranscriptCount(who broker.Principal, f transcript.Filter) (int, error)
}

// Entries shows audit entries on the pages of several areas.
type Entries struct {
	b       EntryReader
	cursors *Cursors
}

// NewEntries returns the audit entries of a broker.
func NewEntries(b EntryReader, cursors *Cursors) *Entries {
	return &Entries{b: b, cursors: cursors}
}

// EntryTable is the data of the template "entries", which lists audit entries.
type EntryTable struct {
	View    shell.View
	Rows    []EntryRow
	Address string // of a list that can be sorted; "" = the table has one order
}

// Names returns the names of the tasks of entries.
func (es *Entries) Names(ctx context.Context, who broker.Principal, entries []audit.Entry) (map[string]string, error) {
	return TaskNames(ctx, es.b, who, entries, func(e audit.Entry) string { return e.TaskID })
}

// At returns the table with headings that sort the list at an address.
func (t EntryTable) At(address string) EntryTable {
	t.Address = address
	return t
}

// EntryRow is one entry with its sentence and its subjects.
type EntryRow struct {
	audit.Entry
	Says  string // one line, with invisible characters escaped
	About []About
}

// Key identifies the entry. It is the end of the path of the entry's page.
func (r EntryRow) Key() string { return r.Writer + "/" + strconv.FormatInt(r.Seq, 10) }

// About is a subject of an entry: its id or a plain text, its name if it has one, and
// the path of its page, or "".
type About struct{ Path, Text, Name string }

// Short returns the name, or the short id.
func (a About) Short() string { return agenttext.Name(cmp.Or(a.Name, shell.ShortID(a.Text))) }

// shownSentence limits the sentence of an entry in a list, in characters. The
// page of the entry shows all data.
const shownSentence = 400

// Says returns the sentence of an entry on one line, with times in the reader's zone. It
// may contain text of a sandbox or of a third party, so invisible characters are escaped.
func Says(v shell.View, e audit.Entry) string {
	said := audit.Sentence(e, func(t time.Time) string { return shell.Clock(v, t) })
	return agenttext.ShowLine(agenttext.From(said), shownSentence)
}

// Table builds the table of entries. names are those of their tasks.
func (es *Entries) Table(v shell.View, entries []audit.Entry, names map[string]string) EntryTable {
	t := EntryTable{View: v}
	for _, e := range entries {
		row := EntryRow{Entry: e, Says: Says(v, e), About: es.About(v, e, names)}
		if id := issuance.CoveredBy(e); id != "" {
			row.About = append(row.About, About{Text: "covered by an earlier grant, without a new approval:"}, About{Path: "/requests/" + id, Text: id})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// About returns the subjects of an entry that have a page which the visitor may read.
func (es *Entries) About(v shell.View, e audit.Entry, names map[string]string) []About {
	var out []About
	for _, x := range []struct{ page, id, name string }{{"/tasks/", e.TaskID, names[e.TaskID]}, {"/credentials/", e.LeaseID, ""}, {"/requests/", e.RequestID, ""}} {
		if x.id != "" {
			out = append(out, About{x.page + x.id, x.id, x.name})
		}
	}
	if id := issuance.TranscriptOf(e); id != "" && es.b.MayReadTranscripts(v.Who.Principal) == nil {
		out = append(out, About{Path: TranscriptsPath + "/" + id, Text: id})
	}
	return out
}

// Page returns one page of entries and the links to the pages next to it.
func (es *Entries) Page(c echo.Context, v *session.Visit, q broker.EntryQuery, list, at string) ([]audit.Entry, Pager, error) {
	q.Limit, q.Look = Rows, Look
	slice, err := es.b.EntryList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return nil, Pager{}, err
	}
	in := Paging{List: list, At: at, Placed: q.Place.Writer != "", Back: q.Back, More: slice.More, Stop: entryPlaceText(slice.Stop)}
	if n := len(slice.Entries); n > 0 {
		first, last := slice.Entries[0], slice.Entries[n-1]
		in.First, in.Last = entryPlaceText(broker.EntryPlace{At: first.At, Writer: first.Writer, Seq: first.Seq}), entryPlaceText(broker.EntryPlace{At: last.At, Writer: last.Writer, Seq: last.Seq})
	}
	p := es.cursors.Pager(in)
	p.Short, p.Look = slice.Short, q.Look
	if q.Oldest {
		p.Back, p.On = "Older", "Newer"
	}
	return slice.Entries, p, nil
}

func entryPlaceText(p broker.EntryPlace) string {
	return strconv.FormatInt(p.At.UnixMilli(), 10) + "." + strconv.FormatInt(p.Seq, 10) + "." + p.Writer
}

// EntryPlace parses the text of entryPlaceText. The text comes from a signed
// cursor, so errors are ignored.
func EntryPlace(s string) broker.EntryPlace {
	at, rest, _ := strings.Cut(s, ".")
	seq, writer, _ := strings.Cut(rest, ".")
	ms, _ := strconv.ParseInt(at, 10, 64)
	n, _ := strconv.ParseInt(seq, 10, 64)
	return broker.EntryPlace{At: time.UnixMilli(ms).UTC(), Writer: writer, Seq: n}
}

// Transcripts is the number of transcripts of a task or credential, for its page.
type Transcripts struct {
	Path string // path of their list; "" = the visitor may not read transcripts
	N    int
	Gone bool // the number is not available at the moment
}

// Transcripts counts the transcripts of a filter. An error does not fail the
// page, because people stop tasks and revoke credentials there.
func (es *Entries) Transcripts(v *session.Visit, query string, f transcript.Filter) Transcripts {
	if es.b.MayReadTranscripts(v.Principal) != nil {
		return Transcripts{}
	}
	n, err := es.b.TranscriptCount(v.Principal, f)
	return Transcripts{Path: Address(TranscriptsPath, query), N: n, Gone: err != nil}
}

// Credential is a lease with the texts that pages show for it.
type Credential struct {
	broker.Lease
	Now       time.Time
	Approvers []string // people who approved its request; nil on the page of one credential
	TaskName  string
}

// Word returns the visible name of the state.
func (l Credential) Word() string {
	switch l.State {
	case broker.LeaseLive:
		return "active"
	case broker.LeaseIntent:
		return "being issued"
	case broker.LeaseRevoking:
		if l.Unsure() {
			return "UNSURE"
		}
		return "revoking"
	}
	return string(l.State)
}

// Tone returns the CSS class of the state.
func (l Credential) Tone() string {
	switch l.State {
	case broker.LeaseLive:
		return "good"
	case broker.LeaseIntent:
		return "warn"
	case broker.LeaseRevoking, broker.LeaseUnconfirmed:
		if l.State == broker.LeaseUnconfirmed || l.Unsure() {
			return "bad"
		}
		return "warn"
	}
	return ""
}

// Unsure reports that at least one revocation attempt was made and none
// succeeded: the provider may still accept the credential.
func (l Credential) Unsure() bool {
	return l.State == broker.LeaseRevoking && l.Upstream != nil && l.Upstream.Attempts > 0
}

// Trouble returns the last revocation error with invisible characters escaped.
// The text may come from a third party.
func (l Credential) Trouble() string {
	if l.Upstream == nil || l.Upstream.LastError == "" {
		return ""
	}
	return agenttext.ShowLine(agenttext.From(l.Upstream.LastError), 600)
}

// Proof explains why the credential is considered dead at its provider.
func (l Credential) Proof() string {
	if l.Upstream == nil {
		return ""
	}
	return map[broker.Proof]string{
		broker.ProofProbed: "a probe after the revocation was refused", broker.ProofConfirmed: "the provider confirmed it", broker.ProofBound: "the provider accepted the revocation, and the maximum delay of its class has passed",
		broker.ProofExpired: "its expiry time has passed", broker.ProofNever: "the provider reports that it was never issued", broker.ProofForced: "not proved: an operator closed the pending revocation",
		broker.ProofNone: "not proved: the response that may have issued it was lost or withheld",
	}[l.Upstream.Proof]
}

// Own reports whether ebb itself issued the token. Such a token is useless as soon as ebb refuses it.
func (l Credential) Own() bool { return l.Upstream == nil }

// DeadAt returns the time by which the provider refused the credential. Zero
// means that this is not known.
func (l Credential) DeadAt() time.Time {
	switch {
	case l.Upstream != nil:
		return l.Upstream.DeadAt
	case l.State == broker.LeaseRevoked:
		return l.RevokedAt
	case l.State == broker.LeaseExpired:
		return l.ExpiresAt
	}
	return time.Time{}
}

// Why returns the cause of the revocation or expiry.
func (l Credential) Why() string {
	return map[broker.Cause]string{
		broker.CauseCompleted: "its task was completed", broker.CauseStopped: "its task was stopped", broker.CauseDeadline: "the deadline of its task passed", broker.CauseHeartbeat: "the runner of its task sent no heartbeat in time",
		broker.CauseExited: "its sandbox exited", broker.CauseMissedAttestation: "its sandbox did not re-attest before the deadline", broker.CauseSuspicious: "an approver denied a request of its task as suspicious",
		broker.CauseParent: "the parent task ended", broker.CauseExpired: "it reached its expiry time",
	}[l.Cause]
}

// Left reports whether the credential is active and unexpired.
func (l Credential) Left() bool { return l.State == broker.LeaseLive && l.ExpiresAt.After(l.Now) }
