package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ebb/broker/transcript"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

var headColumns = []out.Column[transcript.Head]{
	{Name: "id", Cell: func(h transcript.Head) string { return h.ID }},
	{Name: "at", Cell: func(h transcript.Head) string { return out.Time(h.At) }},
	{Name: "task", Cell: func(h transcript.Head) string { return h.TaskID }},
	{Name: "lease", Cell: func(h transcript.Head) string { return h.LeaseID }},
	{Name: "rule", Cell: func(h transcript.Head) string { return h.Rule }},
	{Name: "tool", Cell: func(h transcript.Head) string { return h.Tool }},
	{Name: "method", Cell: func(h transcript.Head) string { return h.Method }},
	{Name: "host", Cell: func(h transcript.Head) string { return h.Host }},
	{Name: "path", Cell: func(h transcript.Head) string { return h.Path }},
}

// transcriptColumns are headColumns and what was said.
func transcriptColumns() []out.Column[transcript.Transcript] {
	var all []out.Column[transcript.Transcript]
	for _, c := range headColumns {
		all = append(all, out.Column[transcript.Transcript]{Name: c.Name, Cell: func(t transcript.Transcript) string { return c.Cell(t.Head) }})
	}
	answer := func(cell func(transcript.Message) string) func(transcript.Transcript) string {
		return func(t transcript.Transcript) string {
			if t.Answer == nil {
				return ""
			}
			return cell(*t.Answer)
		}
	}
	return append(all,
		out.Column[transcript.Transcript]{Name: "query", Cell: func(t transcript.Transcript) string { return t.Query }},
		out.Column[transcript.Transcript]{Name: "request_headers", Cell: func(t transcript.Transcript) string { return headerCell(t.Request.Headers) }},
		out.Column[transcript.Transcript]{Name: "request_about", Cell: func(t transcript.Transcript) string { return aboutBody(t.Request.Body) }},
		out.Column[transcript.Transcript]{Name: "request_body", Cell: func(t transcript.Transcript) string { return t.Request.Body.Text }},
		out.Column[transcript.Transcript]{Name: "status", Cell: answer(func(m transcript.Message) string { return out.Int(m.Status) })},
		out.Column[transcript.Transcript]{Name: "ended", Cell: func(t transcript.Transcript) string {
			switch {
			case t.Answer == nil:
				return "not yet, or nobody knows"
			case t.Answer.Cut:
				return "cut"
			}
			return "by itself"
		}},
		out.Column[transcript.Transcript]{Name: "answer_headers", Cell: answer(func(m transcript.Message) string { return headerCell(m.Headers) })},
		out.Column[transcript.Transcript]{Name: "answer_about", Cell: answer(func(m transcript.Message) string { return aboutBody(m.Body) })},
		out.Column[transcript.Transcript]{Name: "answer_body", Cell: answer(func(m transcript.Message) string { return m.Body.Text })},
	)
}

// headerCell is headers as JSON: nothing in a value looks like another header.
func headerCell(h map[string][]string) string {
	if len(h) == 0 {
		return ""
	}
	text, err := json.Marshal(h)
	if err != nil { // texts always can be
		return ""
	}
	return string(text)
}

// aboutBody is what there is to say of a body.
func aboutBody(b transcript.Body) string {
	if b.Bytes == 0 {
		return ""
	}
	said := []string{strconv.FormatInt(b.Bytes, 10) + " bytes"}
	if b.Type != "" {
		said = append(said, b.Type)
	}
	if b.LeftOut > 0 {
		said = append(said, strconv.FormatInt(b.LeftOut, 10)+" left out")
	}
	if b.Withheld != "" {
		said = append(said, "withheld: "+string(b.Withheld))
	}
	return strings.Join(said, ", ")
}

func newTranscripts(c *cli) *cobra.Command {
	return c.group("transcripts", "Read what was written down of requests through egress, by rule", c.transcriptsList(),
		onOne(c, "show ID", "Show one, which is put on the record", transcriptColumns(), (*client.Operator).Transcript))
}

func (c *cli) transcriptsList() *cobra.Command {
	var f transcript.Filter
	cmd := &cobra.Command{
		Use: "list", Short: "List transcripts of this ebb, the newest first, without what was said", Args: cobra.NoArgs,
		Long: `List transcripts of this ebb, the newest first, without what was said in them. What is
written down say egress.transcripts.rules of the configuration; the entries
egress.allowed and egress.completed of a request name its transcript.`,
	}
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.LeaseID, "lease", "", "of requests with this credential")
	cmd.Flags().StringVar(&f.After, "after", "", "older than this one")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "how many at most, up to 1000")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 || f.Limit > 1000 {
			return usage("--limit is out of range", "name a number from 1 to 1000")
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		list, err := o.Transcripts(cmd.Context(), f)
		if err != nil {
			return err
		}
		if err := out.List(c.stdout, c.format, headColumns, list.Items); err != nil {
			return err
		}
		if list.Next != "" {
			c.sayf("ebb: there may be more: --after %s\n", out.Line(list.Next))
		}
		return nil
	})
	return c.output(c.remote(cmd))
}
