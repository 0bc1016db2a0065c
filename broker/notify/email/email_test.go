package email_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/notify/email"
	"github.com/ebb-broker/ebb/broker/notify/notifytest"
)

// server is a mail server that follows a script: it answers each line with the first
// answer whose verb the line begins with.
type server struct {
	t       *testing.T
	answers map[string]string // verb to answer; "" = no answer
	tls     *tls.Config       // nil = no STARTTLS
	first   bool              // TLS from the start

	mu    sync.Mutex
	said  []string // lines of the client
	plain []string // those of them that were not encrypted
	mails []string
}

func listen(t *testing.T, s *server) (addr string) {
	t.Helper()
	s.t = t
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); s.serve(c) })
		}
	})
	return l.Addr().String()
}

func (s *server) answer(line string) string {
	for verb, a := range s.answers {
		if strings.HasPrefix(strings.ToUpper(line), verb) {
			return a
		}
	}
	switch {
	case line == "":
		return "220 mx.example.com ESMTP"
	case strings.HasPrefix(line, "EHLO") && s.tls != nil && !s.first:
		return "250-mx.example.com\r\n250-STARTTLS\r\n250 AUTH PLAIN"
	case strings.HasPrefix(line, "EHLO"):
		return "250-mx.example.com\r\n250 AUTH PLAIN"
	case strings.HasPrefix(line, "STARTTLS"):
		return "220 go ahead"
	case strings.HasPrefix(line, "DATA"):
		return "354 go on"
	case strings.HasPrefix(line, "QUIT"):
		return "221 bye"
	case strings.HasPrefix(line, "AUTH"):
		return "235 welcome"
	}
	return "250 ok"
}

func (s *server) serve(c net.Conn) {
	encrypted := s.first
	if s.first {
		c = tls.Server(c, s.tls)
	}
	r := bufio.NewReader(c)
	say := func(text string) bool {
		if text == "" {
			_, _ = io.Copy(io.Discard, c) // hangs until the client ends the connection
			return false
		}
		_, err := io.WriteString(c, text+"\r\n")
		return err == nil
	}
	if !say(s.answer("")) {
		return
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.mu.Lock()
		if s.said = append(s.said, line); !encrypted {
			s.plain = append(s.plain, line)
		}
		s.mu.Unlock()
		a := s.answer(line)
		if !say(a) {
			return
		}
		switch {
		case line == "DATA" && strings.HasPrefix(a, "354"):
			if !s.data(r) || !say(s.answer("END")) {
				return
			}
		case line == "STARTTLS" && strings.HasPrefix(a, "220"):
			if s.tls == nil {
				return
			}
			c = tls.Server(c, s.tls)
			r, encrypted = bufio.NewReader(c), true
		}
	}
}

func (s *server) data(r *bufio.Reader) bool {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		if !strings.HasSuffix(line, "\r\n") || len(line) > 1000 {
			s.t.Errorf("a line of %d bytes: %q", len(line), line)
		}
		b.WriteString(strings.TrimPrefix(line, "."))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, b.String())
	return true
}

func (s *server) arrived() []notifytest.Arrived {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []notifytest.Arrived
	for _, m := range s.mails {
		out = append(out, read(s.t, m))
	}
	return out
}

var link = regexp.MustCompile(`(?m)https?://\S+$`)

// read parses a mail as a mail client does, and fails for content that a mail of ebb must
// not have.
func read(t *testing.T, text string) notifytest.Arrived {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	want := map[string]int{"From": 1, "To": 1, "Subject": 1, "Date": 1, "Message-Id": 1, "Auto-Submitted": 1, "X-Auto-Response-Suppress": 1, "List-Unsubscribe": 1, "Mime-Version": 1, "Content-Type": 1, "Content-Transfer-Encoding": 1}
	for name, values := range m.Header {
		if want[name] != len(values) {
			t.Errorf("header %s: %q", name, values)
		}
	}
	if _, err := m.Header.Date(); err != nil || m.Header.Get("Auto-Submitted") != "auto-generated" || m.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%v: %v", err, m.Header)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		t.Error(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Error(err)
	}
	shown := strings.ReplaceAll(string(body), "\r\n", "\n")
	a := notifytest.Arrived{ID: m.Header.Get("Message-Id"), Size: len(text), Text: []string{subject, shown}}
	for l := range strings.SplitSeq(shown, "\n") {
		// A line of facts begins with its label: text after it in a name does not become
		// a line of its own.
		if strings.HasPrefix(l, "http") || strings.HasPrefix(l, "and ") {
			a.Links = append(a.Links, link.FindAllString(l, -1)...)
		}
	}
	return a
}

// keys are a certificate for 127.0.0.1, and its CA in a file.
func keys(t *testing.T) (*tls.Config, string) {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	srv.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(srv.Certificate().Raw) + "\n-----END CERTIFICATE-----\n"
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: srv.TLS.Certificates, MinVersion: tls.VersionTLS12}, file
}

func open(t *testing.T, o email.Options) *email.Sender {
	t.Helper()
	if o.From == "" {
		o.From = "ebb <ebb@example.com>"
	}
	if len(o.To) == 0 {
		o.To = []string{"oncall@example.com", "Team <team@example.com>"}
	}
	s, err := email.New(email.Config{Options: o, Look: func(string) (string, bool) { return "pa55word", true }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

//ebb:invariant I9 Names in a notification are escaped, so that no character hides, reorders or imitates other text
func TestSender(t *testing.T) {
	t.Parallel()
	notifytest.Run(t, notifytest.Suite{
		MaxSize: 256 << 10,
		Open: func(t *testing.T) (notify.Sender, func() []notifytest.Arrived) {
			srv := &server{}
			return open(t, email.Options{Server: "smtp://" + listen(t, srv)}), srv.arrived
		},
		Hang: func(t *testing.T) notify.Sender {
			return open(t, email.Options{Server: "smtp://" + listen(t, &server{answers: map[string]string{"MAIL": ""}})})
		},
	})
}

// With STARTTLS and with TLS from the start, only the request for encryption is sent
// unencrypted.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	config, ca := keys(t)
	for scheme, first := range map[string]bool{"smtp://": false, "smtps://": true} {
		srv := &server{tls: config, first: first}
		s := open(t, email.Options{Server: scheme + listen(t, srv), CAFile: ca, Username: "ebb", Password: notify.Key{Variable: "P"}})
		if _, err := s.Send(t.Context(), notifytest.Message(1)); err != nil || len(srv.arrived()) != 1 {
			t.Errorf("%s: %v", scheme, err)
		}
		srv.mu.Lock()
		for _, l := range srv.plain {
			if !strings.HasPrefix(l, "EHLO") && l != "STARTTLS" {
				t.Errorf("%s: not encrypted: %q", scheme, l)
			}
		}
		srv.mu.Unlock()
	}
}

// Hostile servers: ebb repeats none of their text, sends no data unencrypted, and ends
// every conversation.
//
//ebb:invariant I8 An error about a mail server contains only the server's reply code, not its text
//ebb:invariant I8 The SMTP password is not sent over an unencrypted connection
func TestHostileServers(t *testing.T) {
	t.Parallel()
	config, ca := keys(t)
	for name, tt := range map[string]struct {
		srv     *server
		o       email.Options
		refused bool
		may     bool // the mail may be sent
	}{
		"no greeting":                      {srv: &server{answers: map[string]string{"": "554 \u202egone"}}},
		"another protocol":                 {srv: &server{answers: map[string]string{"": "HTTP/1.1 200 OK"}}},
		"an answer without an end":         {srv: &server{answers: map[string]string{"EHLO": strings.Repeat("250-x\r\n", 200_000) + "250 ok"}}},
		"a line without an end":            {srv: &server{answers: map[string]string{"": strings.Repeat("x", 1<<20)}}},
		"later":                            {srv: &server{answers: map[string]string{"MAIL": "451 later"}}},
		"no such person":                   {srv: &server{answers: map[string]string{"RCPT": "550 no evil-words here"}}, refused: true},
		"too big":                          {srv: &server{answers: map[string]string{"END": "552 too big"}}, refused: true},
		"refused at the end":               {srv: &server{answers: map[string]string{"END": "451 later"}}},
		"no DATA":                          {srv: &server{answers: map[string]string{"DATA": "503 no"}}},
		"a certificate of nobody":          {srv: &server{tls: config, first: true}, o: email.Options{Server: "smtps://"}},
		"STARTTLS is broken":               {srv: &server{tls: config, answers: map[string]string{"STARTTLS": "454 not now"}}, o: email.Options{CAFile: ca}},
		"STARTTLS is stripped":             {srv: &server{}, o: email.Options{CAFile: ca, Username: "ebb", Password: notify.Key{Variable: "P"}}},
		"commands before TLS are injected": {srv: &server{tls: config, answers: map[string]string{"STARTTLS": "220 go\r\n250 injected"}, first: false}, o: email.Options{CAFile: ca, Username: "ebb", Password: notify.Key{Variable: "P"}}, may: true},
		"the password is wrong":            {srv: &server{tls: config, answers: map[string]string{"AUTH": "535 pa55word is wrong"}}, o: email.Options{CAFile: ca, Username: "ebb", Password: notify.Key{Variable: "P"}}},
		"STARTTLS leads to something else": {srv: &server{answers: map[string]string{"EHLO": "250-x\r\n250 STARTTLS"}}, o: email.Options{CAFile: ca}},
		"an answer with hidden characters": {srv: &server{answers: map[string]string{"MAIL": "\u202e250 ok"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := tt.o.Server
			if scheme == "" {
				scheme = "smtp://"
			}
			tt.o.Server = scheme + listen(t, tt.srv)
			_, err := open(t, tt.o).Send(t.Context(), notifytest.Message(1))
			if tt.may && err == nil {
				err = errors.New("sent")
			}
			if err == nil || errors.Is(err, notify.ErrRefused) != tt.refused {
				t.Fatalf("got %v", err)
			}
			agenttexttest.ASCII(t, "error", err.Error())
			if strings.Contains(err.Error(), "evil") || strings.Contains(err.Error(), "pa55word") {
				t.Errorf("it repeats the server: %v", err)
			}
			tt.srv.mu.Lock()
			defer tt.srv.mu.Unlock()
			for _, l := range tt.srv.plain {
				if strings.HasPrefix(l, "AUTH") || strings.Contains(l, base64.StdEncoding.EncodeToString([]byte("pa55word"))) {
					t.Errorf("a login in the clear: %q", l)
				}
			}
		})
	}
}

// To other machines, nothing is sent over an unencrypted connection, regardless of the
// server's answers; nor is a name followed to a private address.
//
//ebb:invariant I6 ebb does not connect to a mail server whose configured name resolves to a private address, unless private addresses are allowed
//ebb:invariant I8 Mail is not sent over an unencrypted connection to a server on another machine
func TestOffLoopback(t *testing.T) {
	t.Parallel()
	srv := &server{}
	_, port, err := net.SplitHostPort(listen(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	// In capitals the name is an ordinary one and leads to the server.
	s := open(t, email.Options{Server: "smtp://Localhost:" + port, Private: true})
	if _, err := s.Send(t.Context(), notifytest.Message(1)); err == nil || !strings.Contains(err.Error(), "no STARTTLS") {
		t.Errorf("it was sent in the clear, or the server was not asked: %v", err)
	}
	s = open(t, email.Options{Server: "smtp://Localhost:" + port})
	if _, err := s.Send(t.Context(), notifytest.Message(1)); !errors.Is(err, fetch.ErrPrivate) {
		t.Errorf("a name led to a private address: %v", err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	ok := email.Options{Server: "smtps://mx.example.com", From: "ebb@example.com", To: []string{"a@example.com"}}
	for name, change := range map[string]func(*email.Options){
		"no server": func(o *email.Options) { o.Server = "" }, "http": func(o *email.Options) { o.Server = "http://x" }, "a password in it": func(o *email.Options) { o.Server = "smtp://a:b@x" },
		"no from": func(o *email.Options) { o.From = "" }, "two in from": func(o *email.Options) { o.From = "a@example.com, b@example.com" },
		"a line": func(o *email.Options) { o.From = "a@example.com\r\nBcc: b@example.com" }, "quoted": func(o *email.Options) { o.From = `"a b"@example.com` },
		"unicode": func(o *email.Options) { o.To = []string{"zo\u00eb@example.com"} }, "nobody": func(o *email.Options) { o.To = nil },
		"an option":                 func(o *email.Options) { o.To = []string{"a@example.com> ORCPT=x"} },
		"a name without a password": func(o *email.Options) { o.Username = "ebb" }, "a password without a name": func(o *email.Options) { o.Password = notify.Key{Variable: "P"} },
		"no such CA": func(o *email.Options) { o.CAFile = "/nowhere" }, "many": func(o *email.Options) { o.To = make([]string, 51) },
	} {
		o := ok
		change(&o)
		if _, err := email.New(email.Config{Options: o, Look: os.LookupEnv}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := email.New(email.Config{Options: ok}); err != nil {
		t.Error(err)
	}
}

// A person's own mail names their notification settings. An invalid address is refused
// permanently.
func TestPeople(t *testing.T) {
	t.Parallel()
	srv := &server{}
	s := open(t, email.Options{Server: "smtp://" + listen(t, srv), People: true, To: []string{"oncall@example.com"}})
	m := notifytest.Message(1)
	m.To = "ana@example.com"
	if _, err := s.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := srv.mails[0]
	if !strings.Contains(got, "To: ana@example.com\r\n") || strings.Contains(got, "oncall") || !strings.Contains(got, "List-Unsubscribe: <"+notifytest.Base+"/settings>") {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{"ana", "ana@example.com\r\nDATA", "ana@example.com>\r\nRCPT TO:<b@example.com", "@", "a@b@c", "<>", "ana@ex\u00e4mple.com", strings.Repeat("a", 300) + "@example.com"} {
		m.To = bad
		if _, err := s.Send(t.Context(), m); !errors.Is(err, notify.ErrRefused) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if n := len(srv.mails); n != 1 {
		t.Errorf("%d mails", n)
	}
}

// An address of a person who left a team does not stop the mail to the others. After a
// temporary failure of an address, no recipient gets the mail until a retry.
func TestOneAddressOfSeveral(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct {
		mails int
		said  string
	}{
		"550 no such user": {mails: 1, said: "the mail server took it, and refused 1 of 2 addresses"},
		"450 come again":   {},
		"421 closing":      {},
	} {
		srv := &server{answers: map[string]string{"RCPT TO:<GONE@": answer}}
		s := open(t, email.Options{Server: "smtp://" + listen(t, srv), From: "ebb@example.com", To: []string{"gone@example.com", "ana@example.com"}})
		said, err := s.Send(t.Context(), notifytest.Message(1))
		if got := len(srv.arrived()); got != want.mails || said != want.said || (err == nil) != (want.mails > 0) || errors.Is(err, notify.ErrRefused) {
			t.Errorf("%s: %d mails, %q, %v", answer, got, said, err)
		}
	}
	srv := &server{answers: map[string]string{"RCPT": "550 no such user"}}
	s := open(t, email.Options{Server: "smtp://" + listen(t, srv), From: "ebb@example.com", To: []string{"gone@example.com", "left@example.com"}})
	if said, err := s.Send(t.Context(), notifytest.Message(1)); !errors.Is(err, notify.ErrRefused) || len(srv.arrived()) > 0 {
		t.Errorf("no address is known: %q, %v", said, err)
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("ana@example.com")
	f.Add("Ana <ana@example.com>\r\nBcc: x@example.com")
	f.Fuzz(func(t *testing.T, text string) {
		srv := email.Options{Server: "smtp://127.0.0.1", From: "ebb@example.com", To: []string{text}}
		s, err := email.New(email.Config{Options: srv})
		if err != nil {
			return
		}
		raw := s.Compose(notifytest.Message(1))
		m, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil || len(m.Header) != 10 {
			t.Fatalf("%q made %q, %v", text, raw, err)
		}
	})
}
