package notify_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/notify"
)

//ebb:invariant I8 A configuration error does not repeat the URL of a notification channel, because its path may be a secret
func TestTheURLIsASecret(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"http://hooks.slack.example/services/secret", "hunter2", "https://a:secret@hooks.slack.example/", ""} {
		_, err := notify.NewHook(notify.HookOptions{URL: notify.Key{Variable: "URL"}}, func(string) (string, bool) { return bad, bad != "" }, fetch.Config{}, nil)
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := notify.NewHook(notify.HookOptions{}, nil, fetch.Config{}, nil); err == nil {
		t.Error("no URL was taken")
	}
}
