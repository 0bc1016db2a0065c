package email_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/notify/email"
	"github.com/ebb-broker/ebb/broker/notify/notifytest"
)

// TestRealServer sends mails to an independent mail server over STARTTLS, and reads them
// in its mailbox.
func TestRealServer(t *testing.T) {
	t.Parallel()
	dir := counterpart.Need(t, "EBB_TEST_SMTP")
	server, err := os.ReadFile(filepath.Join(dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	mark := strings.ToLower(rand.Text()) + "@example.com" // the mailbox may hold mails of earlier runs
	s := open(t, email.Options{Server: strings.TrimSpace(string(server)), CAFile: filepath.Join(dir, "ca.pem"), To: []string{mark, "team@example.com"}})
	m := notifytest.Message(3)
	m.Notices[0].TaskName = "x\r\n.\r\nQUIT\r\n\u202eZo\u00eb"
	if _, err := s.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "maildir", "new", "*"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), mark) {
			continue
		}
		found++
		text := strings.ReplaceAll(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n", "\r\n")
		for _, h := range []string{"X-Peer", "X-MailFrom", "X-RcptTo"} { // added by the server
			before, after, has := strings.Cut(text, h+": ")
			_, after, _ = strings.Cut(after, "\r\n")
			if !has {
				t.Errorf("no %s: %s", h, text)
			}
			text = before + after
		}
		a := read(t, text)
		if !strings.Contains(a.Text[1], "x[U+000D][U+000A].[U+000D][U+000A]QUIT[U+000D][U+000A][U+202E]Zo\u00eb") || len(a.Links) != 3 {
			t.Errorf("got %+v", a)
		}
	}
	if found != 1 {
		t.Errorf("%d mails are in the mailbox, want 1", found)
	}
}
