package console

import (
	"strconv"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/audit"
)

// entryTable is what the part of a page that lists entries of the record is given.
type entryTable struct {
	View view
	Rows []entryRow
}

type entryRow struct {
	audit.Entry
	About []about
}

// Key says which entry it is, as the path of its page ends.
func (r entryRow) Key() string { return r.Writer + "/" + strconv.FormatInt(r.Seq, 10) }

// about is what an entry is about, with the page of it.
type about struct{ Path, Text string }

// shownData is how much of an entry's data a list draws; its page has all of it.
const shownData = 160

// entryRows makes the table. The data of an entry may hold words of a sandbox or of a
// third party: nothing hides in what is drawn.
func entryRows(v view, entries []audit.Entry) entryTable {
	t := entryTable{View: v}
	for _, e := range entries {
		row := entryRow{Entry: e, About: aboutOf(v, e)}
		if id := broker.CoveredBy(e); id != "" {
			row.About = append(row.About, about{"", "covered by grant, nobody was asked:"}, about{"/requests/" + id, id})
		}
		if len(e.Data) > 0 {
			row.About = append(row.About, about{"", agenttext.ShowLine(agenttext.From(string(e.Data)), shownData)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// aboutOf names what an entry is about, as far as there are pages of it for who looks.
func aboutOf(v view, e audit.Entry) []about {
	var out []about
	for _, x := range []struct{ page, id string }{{"/tasks/", e.TaskID}, {"/credentials/", e.LeaseID}, {"/requests/", e.RequestID}} {
		if x.id != "" {
			out = append(out, about{x.page + x.id, x.id})
		}
	}
	if id := broker.TranscriptOf(e); id != "" && v.s.b.MayReadTranscripts(v.Who.Principal) == nil {
		out = append(out, about{transcriptsPath + "/" + id, id})
	}
	return out
}
