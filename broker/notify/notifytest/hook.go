package notifytest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/notify"
)

// Hook returns a sender that posts to a chat.
func Hook(t *testing.T, body func(notify.Message) ([]byte, error), chat http.Handler) notify.Sender {
	t.Helper()
	srv := httptest.NewServer(chat)
	t.Cleanup(srv.Close)
	look := func(string) (string, bool) { return srv.URL + "/services/T0/B0/secret", true }
	s, err := notify.NewHook(notify.HookOptions{URL: notify.Key{Variable: "URL"}}, look, fetch.Config{}, body)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
