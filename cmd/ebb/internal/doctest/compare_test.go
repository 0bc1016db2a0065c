package doctest

import "testing"

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, want, got, missing string }{
		{"same", "a\nb\n", "a\nb\n", ""},
		{"no output", "", "", ""},
		{"unexpected output", "", "a\n", "(no further line)"},
		{"missing output", "a\n", "", "a"},
		{"another line", "a\nb\nc\n", "a\nx\nc\n", "b"},
		{"a further line", "a\n", "a\nb\n", "(no further line)"},
		{"any lines", "a\n...\nd\n", "a\nb\nc\nd\n", ""},
		{"any lines, none", "a\n...\nd\n", "a\nd\n", ""},
		{"any lines at the end", "a\n...\n", "a\nb\n", ""},
		{"any lines first", "...\nb\n", "a\nb\n", ""},
		{"the last of two", "...\nb\nc\n", "b\nx\nb\nc\n", ""},
		{"a line behind any lines is missing", "...\nb\nc\n", "a\nb\nd\n", "c"},
		{"two gaps", "a\n...\nc\n...\ne\n", "a\nb\nc\nd\ne\n", ""},
		{"order", "...\nb\n...\na\n...\n", "a\nb\n", "a"},
		{"within a line", `{"token":"...","n":1}` + "\n", `{"token":"x","n":1}` + "\n", ""},
		{"within a line, another rest", `{"token":"...","n":1}` + "\n", `{"token":"x","n":2}` + "\n", `{"token":"...","n":1}`},
		{"a regular expression is text", "a.c (x)\n", "abc (x)\n", "a.c (x)"},
		{"columns", "ID       STATE\ntsk_01a1f92a00007b  open\n", "ID  STATE\ntsk_01a2f92a00007bf2  open\n", ""},
	} {
		if missing := Compare(tt.want, tt.got); missing != tt.missing {
			t.Errorf("%s: %q, want %q", tt.name, missing, tt.missing)
		}
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want, got string
		contains  bool
	}{
		{"...\nready http://127.0.0.1:8420\n", "a\nready http://127.0.0.1:8420\nb\n", true},
		{"ready\n...\n", "ready\n", true},
		{"ready\n", "not ready\n", false},
		{"...\n", "", true},
		{"ready\n", "", false},
	} {
		if Contains(tt.want, tt.got) != tt.contains {
			t.Errorf("%q in %q: %v", tt.want, tt.got, !tt.contains)
		}
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"task tsk_01a1f92a00007bf2 open":               "task tsk_ID open",
		"error token_expired, not invalid_request":     "error token_expired, not invalid_request",
		"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln":    "JWT",
		"ticket ebb_tkt_py7IV3QSQvm-gHwxObrwBPh2B_uLy": "ticket SECRET",
		"match code GARNET-82":                         "match code CODE",
		"at 2026-11-27T01:54:40Z":                      "at TIME",
		"at 2026-11-27 01:54:40.123 UTC, or 01:54":     "at TIME, or TIME",
		"expires in 4m59s (1.5ms)":                     "expires in DURATION (DURATION)",
		"changed at 2026-11-27T01:54:40Z (now)":        "changed at TIME (AGO)",
		"anthropic-key  1s ago":                        "anthropic-key AGO",
		"anthropic-key  now":                           "anthropic-key AGO",
		"sha256 6a5400ff00ff00ff":                      "sha256 DIGEST",
		"http://127.0.0.1:8420 and 127.0.0.1:41234/x":  "http://127.0.0.1:8420 and 127.0.0.1:PORT/x",
		"3 leases, 10 tokens":                          "3 leases, 10 tokens",
		"local:repo/app:read":                          "local:repo/app:read",
		"HTTP/1.1 401 Unauthorized\r":                  "HTTP/1.1 401 Unauthorized",
	} {
		if got := Mask(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
