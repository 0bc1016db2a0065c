package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

const ok = "HTTP/1.1 200 OK\r\n"

func read(text string, slow bool) (int, string, error) {
	var r io.Reader = strings.NewReader(text)
	if slow {
		r = iotest.OneByteReader(r)
	}
	status, body, err := (&answers{r: r}).next()
	return status, string(body), err
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20_000)
	for _, tt := range []struct {
		name, text string
		status     int
		body       string
	}{
		{"length", ok + "Content-Length: 2\r\n\r\nhi", 200, "hi"},
		{"letter case and blanks", ok + "content-LENGTH:\t 2 \r\nCONNECTION: Keep-Alive\r\n\r\nhi", 200, "hi"},
		{"no reason", "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", 503, ""},
		{"no body", "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", 204, ""},
		{"chunks", ok + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n00b\r\nbcdefghijkl\r\nA\r\nmnopqrstuv\r\n0\r\n\r\n", 200, "abcdefghijklmnopqrstuv"},
		{"no chunk", ok + "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", 200, ""},
		{"long", ok + "Content-Length: 20000\r\n\r\n" + long, 200, long},
		{"long chunk", ok + "Transfer-Encoding: chunked\r\n\r\n4e20\r\n" + long + "\r\n0\r\n\r\n", 200, long},
	} {
		for _, slow := range []bool{false, true} {
			status, body, err := read(tt.text, slow)
			if err != nil || status != tt.status || body != tt.body {
				t.Errorf("%s, slow %v: got %d %.30q %v", tt.name, slow, status, body, err)
			}
		}
		// A truncated response is incomplete, and complete when the rest
		// arrives.
		for cut := range len(tt.text) {
			if cut > 200 && cut < len(tt.text)-10 {
				continue
			}
			if _, _, err := read(tt.text[:cut], false); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s cut at %d: got %v", tt.name, cut, err)
			}
			a := &answers{r: io.MultiReader(strings.NewReader(tt.text[:cut]), iotest.ErrReader(errAgain))}
			if _, _, err := a.next(); !errors.Is(err, errAgain) {
				t.Errorf("%s waits at %d: got %v", tt.name, cut, err)
			}
			a.r = strings.NewReader(tt.text[cut:])
			if status, body, err := a.resume(); err != nil || status != tt.status || string(body) != tt.body {
				t.Errorf("%s resumed at %d: got %d %.30q %v", tt.name, cut, status, body, err)
			}
		}
	}
}

var errAgain = errors.New("nothing for now")

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	chunked := ok + "Transfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct {
		name, text string
		want       error
	}{
		{"another protocol", "SSH-2.0-OpenSSH\r\n\r\n", errHead},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", errHead},
		{"status of four digits", "HTTP/1.1 2000\r\nContent-Length: 0\r\n\r\n", errHead},
		{"status of letters", "HTTP/1.1 2OO\r\nContent-Length: 0\r\n\r\n", errHead},
		{"status unknown", "HTTP/1.1 999\r\nContent-Length: 0\r\n\r\n", errHead},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n", errHead},
		{"bare line feeds", ok + "X: y\nContent-Length: 0\r\n\r\n", errHead},
		{"continued line", ok + "X: y\r\n Content-Length: 5\r\nContent-Length: 0\r\n\r\n", errHead},
		{"blank before the colon", ok + "Content-Length : 0\r\n\r\n", errHead},
		{"no name", ok + ": 0\r\n\r\n", errHead},
		{"no colon", ok + "Content-Length\r\n\r\n", errHead},
		{"control byte", ok + "X: a\x00b\r\nContent-Length: 0\r\n\r\n", errHead},
		{"no length", ok + "X: y\r\n\r\nuntil the end", errLength},
		{"two lengths", ok + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n", errLength},
		{"length and chunks", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", errLength},
		{"negative", ok + "Content-Length: -1\r\n\r\n", errLength},
		{"signed", ok + "Content-Length: +1\r\n\r\na", errLength},
		{"hexadecimal", ok + "Content-Length: 0x1\r\n\r\na", errLength},
		{"empty length", ok + "Content-Length: \r\n\r\n", errLength},
		{"list", ok + "Content-Length: 1, 1\r\n\r\na", errLength},
		{"other digits", ok + "Content-Length: ١\r\n\r\na", errLength},
		{"another coding", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", errLength},
		{"chunked twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", errLength},
		{"a body where none is", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc", errLength},
		{"too long", ok + "Content-Length: 1048577\r\n\r\n", errLarge},
		{"overflow", ok + "Content-Length: 18446744073709551617\r\n\r\na", errLarge},
		{"head without end", ok + strings.Repeat("X: y\r\n", 10_000), errLarge},
		{"more than the answer", ok + "Content-Length: 1\r\n\r\nab", errMore},
		{"two answers", ok + "Content-Length: 0\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n", errMore},
		{"closes", ok + "Content-Length: 1\r\nConnection: close\r\n\r\na", errClose},
		{"upgrades", ok + "Content-Length: 1\r\nConnection: upgrade\r\n\r\na", errClose},
		{"chunk of nothing", chunked + "\r\n\r\n", errChunk},
		{"chunk with a sign", chunked + "-1\r\n", errChunk},
		{"chunk extension", chunked + "1;a=b\r\na\r\n0\r\n\r\n", errChunk},
		{"chunk longer than it says", chunked + "1\r\nab\r\n0\r\n\r\n", errChunk},
		{"chunk without a line end", chunked + "1\na\n0\n\n", errChunk},
		{"trailer", chunked + "0\r\nX: y\r\n\r\n", errChunk},
		{"chunk too large", chunked + "fffffff\r\n", errLarge},
		{"chunk of endless zeros", chunked + strings.Repeat("0", 1000), errLarge},
		{"chunks too large", chunked + strings.Repeat("80000\r\n"+strings.Repeat("x", 0x80000)+"\r\n", 3), errLarge},
	} {
		for _, slow := range []bool{false, true} {
			if slow && len(tt.text) > 1<<20 {
				continue
			}
			// Bytes after a response are detected if they arrived with it.
			if slow && tt.want == errMore {
				continue
			}
			if status, body, err := read(tt.text, slow); !errors.Is(err, tt.want) || status != 0 || body != "" {
				t.Errorf("%s, slow %v: got %d %.30q %v, want %v", tt.name, slow, status, body, err, tt.want)
			}
		}
	}
}

// FuzzAnswer compares the reader with net/http's: an accepted response has the
// same meaning there, for every split of the bytes.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(ok + "Content-Length: 2\r\n\r\nhi"))
	f.Add([]byte(ok + "Transfer-Encoding: chunked\r\nX-Y: z\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n"))
	f.Add([]byte(ok + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na"))
	f.Fuzz(func(t *testing.T, text []byte) {
		status, body, err := (&answers{r: bytes.NewReader(text)}).next()
		slowStatus, slowBody, slowErr := (&answers{r: iotest.OneByteReader(bytes.NewReader(text))}).next()
		if err != nil {
			if slowErr == nil && !errors.Is(err, errMore) {
				t.Fatalf("%v, but byte by byte it is good", err)
			}
			return
		}
		if slowErr != nil || slowStatus != status || !bytes.Equal(slowBody, body) {
			t.Fatalf("%d %q, but byte by byte %d %q %v", status, body, slowStatus, slowBody, slowErr)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Fatalf("net/http refuses it: %v", err)
		}
		defer resp.Body.Close()
		theirs, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !bytes.Equal(theirs, body) || resp.Close {
			t.Fatalf("%d %q, net/http reads %d %q %v", status, body, resp.StatusCode, theirs, err)
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	text := []byte(ok + "Content-Type: application/json\r\nCache-Control: no-store\r\nX-Request-Id: ABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n" +
		"Date: Sat, 01 Jan 2000 00:00:00 GMT\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000))
	r := bytes.NewReader(text)
	b.Run("strict", func(b *testing.B) {
		a := &answers{r: r}
		for b.Loop() {
			r.Reset(text)
			if _, _, err := a.next(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("net-http", func(b *testing.B) {
		br := bufio.NewReader(r)
		for b.Loop() {
			r.Reset(text)
			br.Reset(r)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
		}
	})
}
