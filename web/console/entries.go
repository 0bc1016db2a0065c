package console

import (
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/issuance"
	"strconv"
)

// entryTable is the data of the template "entries", which lists audit entries.
type entryTable struct {
	View view
	Rows []entryRow
}

type entryRow struct {
	audit.Entry
	About []about
}

// Key identifies the entry. It is the end of the path of the entry's page.
func (r entryRow) Key() string { return r.Writer + "/" + strconv.FormatInt(r.Seq, 10) }

// about is a subject of an entry, with the path of its page, or "" for plain
// text.
type about struct{ Path, Text string }

// shownData limits the data of an entry in a list, in characters. The page of
// the entry shows all of it.
const shownData = 160

// entryRows builds the table. The data of an entry may contain text of a
// sandbox or of a third party, so invisible characters are escaped.
func entryRows(v view, entries []audit.Entry) entryTable {
	t := entryTable{View: v}
	for _, e := range entries {
		row := entryRow{Entry: e, About: aboutOf(v, e)}
		if id := issuance.CoveredBy(e); id != "" {
			row.About = append(row.About, about{"", "covered by an earlier grant, without a new approval:"}, about{"/requests/" + id, id})
		}
		if len(e.Data) > 0 {
			row.About = append(row.About, about{"", agenttext.ShowLine(agenttext.From(string(e.Data)), shownData)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// aboutOf returns the subjects of an entry that have a page which the visitor
// may read.
func aboutOf(v view, e audit.Entry) []about {
	var out []about
	for _, x := range []struct{ page, id string }{{"/tasks/", e.TaskID}, {"/credentials/", e.LeaseID}, {"/requests/", e.RequestID}} {
		if x.id != "" {
			out = append(out, about{x.page + x.id, x.id})
		}
	}
	if id := issuance.TranscriptOf(e); id != "" && v.s.b.MayReadTranscripts(v.Who.Principal) == nil {
		out = append(out, about{transcriptsPath + "/" + id, id})
	}
	return out
}
