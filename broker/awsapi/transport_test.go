package awsapi

import (
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"
)

type answers struct {
	status int
	body   string
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(strings.NewReader(a.body)), ContentLength: int64(len(a.body))}, nil
}

func through(t testing.TB, status int, body string) string {
	t.Helper()
	resp, err := named{answers{status, body}}.RoundTrip(nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(resp.Body)
	if err != nil || int64(len(out)) != resp.ContentLength {
		t.Fatalf("%d of %d bytes, %v", len(out), resp.ContentLength, err)
	}
	return string(out)
}

const (
	ofRGW = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchEntity</Code><Message></Message><RequestId>tx0</RequestId><HostId>h</HostId></Error>`
	// ofDelete is what it answers to DeleteRolePolicy: two documents.
	ofDelete = `<DeleteRolePoliciesResponse><ResponseMetadata><RequestId>tx0</RequestId></ResponseMetadata></DeleteRolePoliciesResponse>` + ofRGW
	ofAWS    = `<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>`
)

func TestRefusalsOfRGWHaveACode(t *testing.T) {
	want := `<ErrorResponse><Error><Code>NoSuchEntity</Code></Error></ErrorResponse>`
	for _, body := range []string{ofRGW, ofDelete} {
		if got := through(t, 404, body); got != want {
			t.Errorf("%s", got)
		}
		if got := through(t, 200, body); got != body {
			t.Errorf("a 200 became %s", got)
		}
	}
	for _, body := range []string{"", ofAWS, "<html><body>NoSuchEntity</body></html>", `{"__type":"NotFoundException"}`, "<Error><Code>No <b>such</b></Code></Error>"} {
		if got := through(t, 404, body); got != body {
			t.Errorf("%q became %q", body, got)
		}
	}
}

func FuzzRefusals(f *testing.F) {
	for _, s := range []string{ofRGW, ofDelete, ofAWS, "", "<Error><Code>", "<Error><Code>A</Code></Error></Error>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got := through(t, 403, body)
		if got == body {
			return
		}
		var doc struct {
			Code string `xml:"Error>Code"`
		}
		if err := xml.Unmarshal([]byte(got), &doc); err != nil || doc.Code == "" || !strings.Contains(body, "<Code>"+doc.Code+"</Code>") {
			t.Errorf("%q became %q, %v", body, got, err)
		}
	})
}
