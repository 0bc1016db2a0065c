package webpush_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/notify/notifytest"
	"github.com/ebb-broker/ebb/broker/notify/webpush"
	"github.com/ebb-broker/ebb/broker/people"
)

var b64 = base64.RawURLEncoding

// agent is a browser: it holds the keys of one subscription and decrypts messages by RFC 8291
// and RFC 8188, independently of the library.
type agent struct {
	private *ecdh.PrivateKey
	auth    []byte
}

func (a agent) decrypt(body []byte) ([]byte, error) {
	if len(body) < 86 || body[20] != 65 {
		return nil, fmt.Errorf("a body of %d bytes", len(body))
	}
	salt, size, sender, ciphertext := body[:16], binary.BigEndian.Uint32(body[16:20]), body[21:86], body[86:]
	if len(ciphertext) > int(size) || len(body) > 4096 {
		return nil, errors.New("more than one record, or too long")
	}
	point, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, err
	}
	shared, err := a.private.ECDH(point)
	if err != nil {
		return nil, err
	}
	ikm := must(hkdf.Key(sha256.New, shared, a.auth, "WebPush: info\x00"+string(a.private.PublicKey().Bytes())+string(sender), 32))
	key := must(hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: aes128gcm\x00", 16))
	nonce := must(hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: nonce\x00", 12))
	clear, err := must(cipher.NewGCM(must(aes.NewCipher(key)))).Open(nil, nonce, ciphertext, nil)
	if err != nil {
		return nil, err
	}
	text, last := strings.CutSuffix(strings.TrimRight(string(clear), "\x00"), "\x02")
	if !last {
		return nil, errors.New("no end of the last record")
	}
	return []byte(text), nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The example of RFC 8291, section 5, holds for the browser of these tests.
func TestVector(t *testing.T) {
	t.Parallel()
	a := agent{must(ecdh.P256().NewPrivateKey(must(b64.DecodeString("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")))), must(b64.DecodeString("BTBZMqHH6r4Tts7J_aSIgg"))}
	got, err := a.decrypt(must(b64.DecodeString("DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN")))
	if err != nil || string(got) != "When I grow up, I want to be a watermelon" {
		t.Errorf("got %q, %v", got, err)
	}
}

// service is a push service with browsers.
type service struct {
	t      *testing.T
	srv    *httptest.Server
	answer http.HandlerFunc // nil = 201
	sender *webpush.Sender
	store  people.PushStore

	mu     sync.Mutex
	agents map[string]agent // by path
	got    []notifytest.Arrived
	calls  int
}

func (s *service) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil || q.Method != http.MethodPost || q.Header.Get("Content-Encoding") != "aes128gcm" || q.Header.Get("TTL") != "3600" || q.Header.Get("Urgency") != "high" {
		s.t.Errorf("%s %v, %v", q.Method, q.Header, err)
	}
	s.vapid(q)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	text, err := s.agents[q.URL.Path].decrypt(body)
	var p struct{ Title, Body, Tag, Path string }
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		s.t.Errorf("%s: %v", q.URL.Path, err)
	}
	agenttexttest.ASCII(s.t, "payload", string(text))
	s.got = append(s.got, notifytest.Arrived{ID: p.Tag, Size: len(body), Text: append(strings.Split(p.Body, "\n"), p.Title), Links: []string{notifytest.Base + p.Path}})
	if s.answer != nil {
		s.answer(w, q)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// vapid verifies the signature and the claims (RFC 8292, sections 2 and 3).
func (s *service) vapid(q *http.Request) {
	var token, key string
	if _, err := fmt.Sscanf(strings.ReplaceAll(q.Header.Get("Authorization"), ",", ""), "vapid t=%s k=%s", &token, &key); err != nil || key != s.sender.PublicKey() {
		s.t.Fatalf("%q, %v", q.Header.Get("Authorization"), err)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), must(b64.DecodeString(key)))
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = jwt.Parse(token, func(*jwt.Token) (any, error) { return public, nil }, jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience(s.srv.URL), jwt.WithSubject("mailto:ops@example.com"), jwt.WithExpirationRequired())
	if err != nil {
		s.t.Error(err)
	}
}

func (s *service) arrived() []notifytest.Arrived {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]notifytest.Arrived(nil), s.got...)
}

// subscription returns the JSON of a new browser.
func (s *service) subscription(path string) string {
	a := agent{must(ecdh.P256().GenerateKey(rand.Reader)), make([]byte, 16)}
	_, _ = rand.Read(a.auth)
	s.mu.Lock()
	s.agents[path] = a
	s.mu.Unlock()
	return fmt.Sprintf(`{"endpoint":%q,"expirationTime":null,"keys":{"p256dh":%q,"auth":%q}}`, s.srv.URL+path, b64.EncodeToString(a.private.PublicKey().Bytes()), b64.EncodeToString(a.auth))
}

func (s *service) subscribe(person, path string) {
	s.t.Helper()
	p, err := s.sender.Subscription(person, s.subscription(path))
	p.Name, p.CreatedAt = "Firefox", time.Now()
	if err == nil {
		err = s.store.AddPush(s.t.Context(), p)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func open(t *testing.T, answer http.HandlerFunc) *service {
	t.Helper()
	env := brokertest.New(t, brokertest.Config{})
	s := &service{t: t, answer: answer, agents: map[string]agent{}, store: env.Store}
	s.srv = httptest.NewTLSServer(s)
	t.Cleanup(s.srv.Close)
	var err error
	s.sender, err = webpush.New(webpush.Config{
		Options: webpush.Options{Contact: "ops@example.com", Services: []string{strings.TrimPrefix(s.srv.URL, "https://"), "*.push.example.com"}},
		Derive:  env.Ring.Derive, Store: env.Store, Fetch: fetch.Config{RootCAs: s.srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.subscribe("ana", "/a")
	return s
}

// to sends every message to ana.
type to struct{ *webpush.Sender }

func (s to) Send(ctx context.Context, m notify.Message) (string, error) {
	m.To = "ana"
	return s.Sender.Send(ctx, m)
}

//ebb:invariant I9 Names in a notification are escaped, so that no character hides, reorders or imitates other text
func TestSender(t *testing.T) {
	t.Parallel()
	notifytest.Run(t, notifytest.Suite{
		MaxSize: 4096, OneLink: true,
		Open: func(t *testing.T) (notify.Sender, func() []notifytest.Arrived) {
			s := open(t, nil)
			return to{s.sender}, s.arrived
		},
		Hang: func(t *testing.T) notify.Sender {
			return to{open(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }).sender}
		},
	})
}

// A message is sent to all browsers of the person. One that has ended its subscription is
// removed, and failures of the service stay with this message.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   error
		left   int
	}{
		"accepted": {status(http.StatusCreated), nil, 2},
		"404":      {status(http.StatusNotFound), notify.ErrRefused, 0},
		"410":      {status(http.StatusGone), notify.ErrRefused, 0},
		"500":      {status(http.StatusInternalServerError), notify.ErrAddress, 2},
		"429":      {status(http.StatusTooManyRequests), notify.ErrAddress, 2},
		"a redirect": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		}, notify.ErrAddress, 2},
		"one of two": {func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(map[string]int{"/a": 201, "/b": 410}[q.URL.Path])
		}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, tt.answer)
			s.subscribe("ana", "/b")
			s.subscribe("bo", "/c")
			_, err := to{s.sender}.Send(t.Context(), notifytest.Message(1))
			left, err2 := s.store.Pushes(t.Context(), "ana")
			others, err3 := s.store.Pushes(t.Context(), "bo")
			if !errors.Is(err, tt.want) || errors.Is(err, notify.ErrGone) || len(left) != tt.left || len(others) != 1 || s.calls != 2 || errors.Join(err2, err3) != nil {
				t.Errorf("got %v, %d of ana and %d of bo left, %d calls", err, len(left), len(others), s.calls)
			}
			if err != nil && strings.Contains(err.Error(), s.srv.URL+"/") {
				t.Errorf("the error names the address: %v", err)
			}
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// A service that always fails is called no more after three failures in a row.
func TestServicePaused(t *testing.T) {
	t.Parallel()
	s := open(t, status(http.StatusInternalServerError))
	for range 10 {
		if _, err := (to{s.sender}).Send(t.Context(), notifytest.Message(1)); !errors.Is(err, notify.ErrAddress) {
			t.Fatal(err)
		}
	}
	if s.calls != 3 {
		t.Errorf("%d calls", s.calls)
	}
}

// Subscriptions at hosts that do not answer pause only those hosts, not the other hosts of the same
// entry: a person chooses the host.
func TestForeignHostPausesNobody(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	sub := func(person, host string) {
		t.Helper()
		p, err := s.sender.Subscription(person, strings.ReplaceAll(s.subscription("/"+person), s.srv.URL, "https://"+host))
		p.Name, p.CreatedAt = "Edge", time.Now()
		if err == nil {
			err = s.store.AddPush(t.Context(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sub("eve", "gone.push.example.com")
	sub("bo", "db5.push.example.com")
	send := func(person string) error {
		m := notifytest.Message(1)
		m.To = person
		_, err := s.sender.Send(t.Context(), m)
		return err
	}
	for range 4 {
		if err := send("eve"); !errors.Is(err, notify.ErrAddress) {
			t.Fatal(err)
		}
	}
	if err := send("eve"); err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("the host that fails is called again: %v", err)
	}
	if err := send("bo"); err == nil || strings.Contains(err.Error(), "paused") {
		t.Errorf("another host of the service: %v", err)
	}
}

// A subscription is an address that a person chooses: only https at the permitted services.
//
//ebb:invariant I8 A subscription to web push is stored encrypted, and bound to its person
func TestSubscription(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	good := s.subscription("/x")
	p, err := s.sender.Subscription("ana", good)
	if err != nil || strings.Contains(p.Sealed, "http") || strings.Contains(p.Sealed, b64.EncodeToString([]byte(s.srv.URL))) {
		t.Fatalf("%+v, %v", p, err)
	}
	p.Person, p.Name, p.CreatedAt = "eve", "x", time.Now() // a row that was moved to another person
	if err := s.store.AddPush(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	m := notifytest.Message(1)
	m.To = "eve"
	if _, err := s.sender.Send(t.Context(), m); !errors.Is(err, notify.ErrRefused) || s.calls != 0 {
		t.Errorf("%v, %d calls", err, s.calls)
	}
	host := strings.TrimPrefix(s.srv.URL, "https://")
	with := func(endpoint string) string { return strings.ReplaceAll(good, s.srv.URL+"/x", endpoint) }
	if _, err := s.sender.Subscription("ana", with("https://db5.push.example.com/w/?token=x")); err != nil {
		t.Error(err)
	}
	point := b64.EncodeToString(append([]byte{4}, make([]byte, 64)...))
	for name, bad := range map[string]string{
		"http": with("http://" + host + "/x"), "another host": with("https://evil.example/x"), "this machine": with("https://127.0.0.1/x"), "metadata": with("https://169.254.169.254/latest"),
		"user": with("https://u:p@" + host + "/x"), "host as user": with("https://" + host + "@evil.example/x"), "fragment": with("https://" + host + "/x#y"), "another port": with("https://a.push.example.com:22/x"),
		"the parent": with("https://push.example.com/x"), "a suffix": with("https://evilpush.example.com/x"), "a backslash": with(`https:\\\\` + host + "/x"), "no address": with(""), "file": with("file:///etc/passwd"),
		"a point off the curve": `{"endpoint":"` + s.srv.URL + `/x","keys":{"p256dh":"` + point + `","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`,
		"a huge key":            `{"endpoint":"` + s.srv.URL + `/x","keys":{"p256dh":"` + strings.Repeat("A", 1<<20) + `","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`,
		"a short secret":        strings.Replace(good, `"auth":"`, `"auth":"","x":"`, 1),
		"no JSON":               "x", "empty": "", "an array": "[]",
	} {
		if _, err := s.sender.Subscription("ana", bad); err == nil {
			t.Errorf("%s: taken: %s", name, bad)
		}
	}
}

// A person who knows the address of another browser, but not its keys, does not get its row. The
// person who signs in at the same browser does.
func TestAnotherPersonsBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	add := func(person, text string) {
		t.Helper()
		p, err := s.sender.Subscription(person, text)
		p.Name, p.CreatedAt = "Firefox", time.Now()
		if err == nil {
			err = s.store.AddPush(t.Context(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	browsers := func(person string) int {
		t.Helper()
		got, err := s.store.Pushes(t.Context(), person)
		if err != nil {
			t.Fatal(err)
		}
		return len(got)
	}
	hers := s.subscription("/x")
	var mine, other map[string]any
	if err := errors.Join(json.Unmarshal([]byte(hers), &mine), json.Unmarshal([]byte(s.subscription("/y")), &other)); err != nil {
		t.Fatal(err)
	}
	add("kim", hers)
	keys, others := mine["keys"].(map[string]any), other["keys"].(map[string]any)
	for _, k := range []map[string]any{others, {"p256dh": keys["p256dh"], "auth": others["auth"]}, {"p256dh": others["p256dh"], "auth": keys["auth"]}} {
		text, err := json.Marshal(map[string]any{"endpoint": mine["endpoint"], "keys": k})
		if err != nil {
			t.Fatal(err)
		}
		add("eve", string(text))
		if browsers("kim") != 1 {
			t.Errorf("%s took the row", text)
		}
	}
	if add("bo", hers); browsers("kim") != 0 || browsers("bo") != 1 {
		t.Errorf("the browser is with kim %d times, with bo %d times", browsers("kim"), browsers("bo"))
	}
}

// A name of a permitted service that resolves to this machine is not called.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	env := brokertest.New(t, brokertest.Config{})
	s, err := webpush.New(webpush.Config{Options: webpush.Options{Contact: "https://ops.example.com", Services: []string{"push.example.com", "localhost.localdomain"}}, Derive: env.Ring.Derive, Store: env.Store})
	if err != nil {
		t.Fatal(err)
	}
	a := agent{must(ecdh.P256().GenerateKey(rand.Reader)), make([]byte, 16)}
	p, err := s.Subscription("ana", fmt.Sprintf(`{"endpoint":"https://localhost.localdomain/x","keys":{"p256dh":%q,"auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`, b64.EncodeToString(a.private.PublicKey().Bytes())))
	if p.Name, p.CreatedAt = "x", time.Now(); err == nil {
		err = env.Store.AddPush(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (to{s}).Send(t.Context(), notifytest.Message(1)); !errors.Is(err, notify.ErrAddress) {
		t.Errorf("got %v", err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]webpush.Options{
		"no contact": {}, "a bad contact": {Contact: "x"}, "a URL as service": {Contact: "a@example.com", Services: []string{"https://push.example.com"}},
		"everything": {Contact: "a@example.com", Services: []string{"*"}}, "a star inside": {Contact: "a@example.com", Services: []string{"a.*.example.com"}}, "no domain": {Contact: "a@example.com", Services: []string{"localhost"}},
	} {
		if _, err := webpush.New(webpush.Config{Options: o}); err == nil {
			t.Errorf("%s: made", name)
		}
	}
	s, err := webpush.New(webpush.Config{Options: webpush.Options{Contact: "a@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(t.Context(), notifytest.Message(1)); !errors.Is(err, notify.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

// The encryption of Web Push is not possible in FIPS 140-only mode.
func TestFIPSOnly(t *testing.T) {
	_, err := webpush.New(webpush.Config{Options: webpush.Options{Contact: "a@example.com"}})
	if !counterpart.FIPSOnly(t) {
		return
	}
	if err == nil {
		t.Error("made")
	}
}
