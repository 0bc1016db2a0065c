package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

var headColumns = []out.Column[wire.TranscriptHead]{
	{Name: "id", Cell: func(h wire.TranscriptHead) string { return h.ID }, Form: out.ID},
	{Name: "at", Cell: func(h wire.TranscriptHead) string { return out.Time(h.At) }, Form: out.When},
	{Name: "task", Cell: func(h wire.TranscriptHead) string { return h.TaskID }, Form: out.ID, Show: out.Full},
	{Name: "lease", Cell: func(h wire.TranscriptHead) string { return h.LeaseID }, Form: out.ID},
	{Name: "rule", Cell: func(h wire.TranscriptHead) string { return h.Rule }, Show: out.Full},
	{Name: "tool", Cell: func(h wire.TranscriptHead) string { return h.Tool }, Show: out.Full},
	{Name: "method", Cell: func(h wire.TranscriptHead) string { return h.Method }},
	{Name: "host", Cell: func(h wire.TranscriptHead) string { return h.Host }, Form: out.Scope},
	{Name: "path", Cell: func(h wire.TranscriptHead) string { return h.Path }, Form: out.Scope},
}

// transcriptColumns are headColumns and the columns of the request and
// response.
func transcriptColumns() []out.Column[wire.Transcript] {
	var all []out.Column[wire.Transcript]
	for _, c := range headColumns {
		all = append(all, out.Column[wire.Transcript]{Name: c.Name, Form: c.Form, Cell: func(t wire.Transcript) string { return c.Cell(t.TranscriptHead) }})
	}
	answer := func(cell func(wire.TranscriptMessage) string) func(wire.Transcript) string {
		return func(t wire.Transcript) string {
			if t.Answer == nil {
				return ""
			}
			return cell(*t.Answer)
		}
	}
	return append(all,
		out.Column[wire.Transcript]{Name: "query", Cell: func(t wire.Transcript) string { return t.Query }},
		out.Column[wire.Transcript]{Name: "request_headers", Cell: func(t wire.Transcript) string { return headerCell(t.Request.Headers) }},
		out.Column[wire.Transcript]{Name: "request_about", Cell: func(t wire.Transcript) string { return aboutBody(t.Request.Body) }},
		out.Column[wire.Transcript]{Name: "request_body", Cell: func(t wire.Transcript) string { return t.Request.Body.Text }},
		out.Column[wire.Transcript]{Name: "status", Cell: answer(func(m wire.TranscriptMessage) string { return out.Int(m.Status) })},
		out.Column[wire.Transcript]{Name: "ended", Cell: func(t wire.Transcript) string {
			switch {
			case t.Answer == nil:
				return "not yet, or unknown"
			case t.Answer.Cut:
				return "cut"
			}
			return "by itself"
		}},
		out.Column[wire.Transcript]{Name: "answer_headers", Cell: answer(func(m wire.TranscriptMessage) string { return headerCell(m.Headers) })},
		out.Column[wire.Transcript]{Name: "answer_about", Cell: answer(func(m wire.TranscriptMessage) string { return aboutBody(m.Body) })},
		out.Column[wire.Transcript]{Name: "answer_body", Cell: answer(func(m wire.TranscriptMessage) string { return m.Body.Text })},
	)
}

// headerCell formats headers as JSON, so that no value can look like another
// header.
func headerCell(h map[string][]string) string {
	if len(h) == 0 {
		return ""
	}
	text, err := json.Marshal(h)
	if err != nil { // strings can always be marshaled
		return ""
	}
	return string(text)
}

// aboutBody describes a body: its size, type, and omitted or withheld parts.
func aboutBody(b wire.TranscriptBody) string {
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
	return c.group("transcripts", "Read transcripts of requests through egress", operatorCommands{c}.transcriptsList(),
		onOne(c, "show TRANSCRIPT", "Show one transcript; reading it is written to the audit log", transcriptColumns(), func(o *client.Operator) action[wire.Transcript] {
			return named(c.transcriptIDs(o).read, o.Transcripts.Get)
		}))
}

func (c operatorCommands) transcriptsList() *cobra.Command {
	var f client.TranscriptFilter
	cmd := &cobra.Command{
		Use: "list", Short: "List transcripts of this ebb, newest first, without their content", Args: cobra.NoArgs,
		Long: `List transcripts of this ebb, newest first, without their content. The rules in
egress.transcripts.rules of the configuration select the recorded requests; the audit
entries egress.allowed and egress.completed of a request name its transcript.`,
	}
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.LeaseID, "lease", "", "of requests with this credential")
	cmd.Flags().StringVar(&f.After, "after", "", "only transcripts older than this one")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "at most this many, up to 1000")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 || f.Limit > 1000 {
			return usage("--limit is out of range", "choose from 1 to 1000")
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		if err := c.about(cmd.Context(), o, &f.TaskID, &f.LeaseID, nil); err != nil {
			return err
		}
		list, err := o.Transcripts.List(cmd.Context(), f)
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
