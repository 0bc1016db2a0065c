package core_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/identity"
)

func TestCheckEvidenceHeader(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"X-Workload-Token", "x-workload-token", "Ebb-Evidence", "Fly-Src", "X-Goog-IAP-JWT-Assertion"} {
		if err := identity.CheckEvidenceHeader(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "Authorization", "AUTHORIZATION", "DPoP", "dpop", "Cookie", "Host", "Content-Type", "Content-Anything", "Connection", "Transfer-Encoding",
		"X-Forwarded-For", "x-forwarded-anything", "Forwarded", "X-Real-IP", "Client-Cert", "Proxy-Authorization", "traceparent", "Sec-Fetch-Mode", "X-Request-Id",
		"X Y", "X:Y", "X\r\nY", "X_Y", "-X", "1X", "\u00e9", "X\u00e9", strings.Repeat("x", 65)} {
		if identity.CheckEvidenceHeader(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
