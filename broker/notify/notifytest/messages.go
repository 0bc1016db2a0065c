package notifytest

import (
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
)

// noticeAt is the time at which the suite sends its messages.
var noticeAt = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

// Base is the public URL of the suite.
const Base = "https://ebb.example.com/ebb"

// newNotice returns a notice with every member set.
func newNotice(n int) notify.Notice {
	id := fmt.Sprintf("req_%026d", n)
	return notify.Notice{
		Event: notify.Waiting, Subject: id, Title: "Write to acme/web at github", Risk: "high", Reasons: []string{"First approval for this owner and kind of task.", "It cannot be undone."}, Only: []string{"update refs/heads/main"},
		TaskID: "tsk_1", TaskName: "fix login", Owner: "bo@example.com", Match: "AMBER-42", Until: noticeAt.Add(22*time.Minute + 30*time.Second), Path: "/requests/" + id,
	}
}

// Message returns a message with n notices.
func Message(n int) notify.Message {
	m := notify.Message{ID: fmt.Sprintf("msg_%032d", n), At: noticeAt, Base: Base, Digest: n > 1}
	for i := range n {
		m.Notices = append(m.Notices, newNotice(i))
	}
	return m
}
