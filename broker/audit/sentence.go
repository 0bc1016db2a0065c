package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Sentence describes an entry in one sentence without a full stop, such as "mia approved
// code:acme/web:write for 15 min". It contains text of runners, sandboxes and third
// parties: escape the sentence before you show it. In quoted text, double quotation marks are
// apostrophes. clock formats the times. For an unknown kind Sentence returns the kind.
func Sentence(e Entry, clock func(time.Time) string) string {
	say, known := sentences[e.Kind]
	if !known {
		return e.Kind
	}
	x := told{who: actor(e.Actor), id: e.Actor, clock: clock}
	_ = json.Unmarshal(e.Data, &x.data) // an entry without data has none of the details
	return say(x)
}

// actor returns how a sentence names the actor of an entry. A page links the sandbox beside it.
func actor(id string) string {
	switch {
	case strings.HasPrefix(id, "sbx_"):
		return "the sandbox"
	case id == "" || id == "unknown":
		return "an unknown caller"
	}
	return id
}

// told has the actor and the data of the entry that a sentence describes.
type told struct {
	who   string
	id    string // of the actor
	data  map[string]any
	clock func(time.Time) string
}

// sentences has a sentence for every kind.
var sentences = map[string]func(told) string{
	BrokerStarted: func(x told) string { return "ebb started" + x.with(", with the policy ", x.short("policy")) },
	BrokerStopped: func(told) string { return "ebb stopped" },

	EndpointOpened: func(x told) string { return x.who + " opened an egress endpoint" + x.with(" for ", x.text("tool")) },
	EndpointRegistered: func(x told) string {
		return x.who + " registered the network namespace of the sandbox for its egress endpoint"
	},
	EndpointClosed: func(x told) string { return x.who + " closed an egress endpoint" + x.because("why") },
	EndpointStranger: func(x told) string {
		return "a process outside the sandbox connected to its egress endpoint, and was refused" + x.because("why")
	},

	EgressAllowed:   func(x told) string { return x.call() + " was allowed, with the credential" },
	EgressStatement: func(x told) string { return x.call() + " was sent" },
	EgressCompleted: func(x told) string { return x.call() + x.outcome() },
	EgressDenied: func(x told) string {
		return x.call() + " was refused" + x.with(": ", spaced(x.text("reason"))) + x.count("; earlier refusals without an entry: %d", "left_out")
	},

	PolicyReloaded: func(x told) string { return "the policy " + x.short("policy") + " is in force" },
	PolicyRejected: func(x told) string {
		return "a changed policy was refused; the previous policy stays in force" + x.because("problems")
	},
	PolicyDrafted: func(x told) string { return x.who + " saved a draft of the policy" + x.because("note") },
	PolicyDropped: func(x told) string {
		return x.who + " discarded a draft of the policy" + x.with(" by ", x.text("author"))
	},
	PolicyPublished: func(x told) string {
		return x.who + " put the draft by " + x.text("author") + " in force, as release " + x.text("release") + x.because("note")
	},

	KeyAdded: func(x told) string { return "the signing key " + x.short("kid") + " is in use from now on" },
	KeyRevoked: func(x told) string {
		return "the signing key " + x.short("kid") + " was revoked; its signatures from " + x.time("since") + " on do not count" + x.because("reason")
	},

	LiveStoreRefilled: func(x told) string {
		return "the live state was rebuilt from the database: " + x.number("open_tasks", "open task") + ", " + x.number("live_leases", "live credential")
	},
	LiveStoreLost: func(told) string { return "the live state was lost; ebb issues nothing until it is rebuilt" },
	LossAccepted: func(x told) string {
		return x.text("by") + " accepted that the database lacks entries (" + x.text("count") + "); ebb refuses everything issued before" + x.because("reason")
	},

	PrincipalAuthenticated: func(x told) string {
		return x.who + " signed in as " + x.list("roles") + x.with(" by ", x.text("method"))
	},
	PrincipalRefused: func(x told) string { return x.who + " was refused a token" + x.because("why") },

	SessionBegan: func(x told) string {
		return x.who + " signed in to the console by " + x.text("method") + x.with(", as ", x.list("roles"))
	},
	SessionEnded: func(x told) string { return x.who + " signed out of the console" },

	PasskeyAdded:   func(x told) string { return x.who + " added a passkey" },
	PasskeyRemoved: func(x told) string { return x.who + " removed a passkey" },
	PasskeyRenamed: func(x told) string { return x.who + " named a passkey " + Quote(x.text("name")) },

	PushAdded:   func(x told) string { return x.who + " turned on notifications in " + x.text("browser") },
	PushRemoved: func(x told) string { return x.who + " turned off notifications in a browser" },

	AbsenceBegun: func(x told) string {
		return x.who + " is away until " + x.time("until") + "; " + x.text("delegate") + " is notified of requests"
	},
	AbsenceEnded: func(x told) string {
		return x.who + " is back; " + x.text("delegate") + " is no longer notified in their place"
	},

	BreakGlassBegun: func(x told) string {
		return x.who + " began break-glass for " + x.quoted("incident") + ", until " + x.time("until") + " and for at most " + x.number("most", "approval") + x.because("reason")
	},
	BreakGlassUsed: func(x told) string {
		return x.who + " alone approved " + x.grant() + ", under break-glass for " + x.quoted("incident")
	},
	BreakGlassEnded: func(x told) string {
		return "break-glass for " + x.quoted("incident") + " ended after " + x.number("used", "approval") + x.with(": ", spaced(x.text("cause")))
	},
	BreakGlassReviewed: func(x told) string {
		return x.who + " reviewed break-glass for " + x.quoted("incident") + x.because("note")
	},

	TranscriptRead: func(x told) string { return x.who + " read a transcript" },
	RecordExported: func(x told) string {
		return x.who + " exported " + x.number("rows", "row") + " of " + x.text("list") + x.because("why")
	},

	TaskOpened: func(x told) string {
		if x.text("name") == "" { // by delegation
			return x.who + " opened this task by delegation, with the ceiling " + x.text("ceiling")
		}
		return x.who + " opened the task " + Quote(x.text("name")) + " for " + x.quoted("owner") + ", with the ceiling " + x.text("ceiling")
	},
	TaskTicket: func(x told) string { return "an enrolment ticket was issued, valid for " + x.span("ttl_seconds") },
	TaskTainted: func(x told) string {
		return x.who + " reported that the task has read untrusted content: " + x.list("sources")
	},
	TaskPaused:    func(x told) string { return x.who + " paused the task" + x.because("reason") },
	TaskResumed:   func(x told) string { return x.who + " resumed the task" + x.because("reason") },
	TaskDelegated: func(x told) string { return x.who + " delegated " + x.text("ceiling") + " as a task of its own" },
	TaskClosed: func(x told) string {
		return x.who + " ended the task (" + spaced(x.text("cause")) + "): " + x.number("live", "credential") + " refused from then on" + x.because("reason")
	},

	SandboxEnrolled: func(x told) string {
		said := x.who + " enrolled with " + x.text("attestor")
		if x.text("subject") == x.id { // a ticket identifies the sandbox only by its id
			return said
		}
		return said + ", as " + Quote(x.text("subject"))
	},
	SandboxRejected: func(x told) string {
		return "evidence for " + x.text("attestor") + " was refused" + x.because("reason")
	},
	SandboxToken:    func(x told) string { return x.who + " got its task token" },
	SandboxAttested: func(x told) string { return x.who + " attested again with " + x.text("attestor") },
	SandboxHeld: func(x told) string {
		return x.who + " opened a control connection; the end of the connection counts as the exit of the sandbox"
	},
	SandboxExited: func(x told) string { return "the sandbox exited" + x.because("how") },

	RequestCreated: func(x told) string {
		return x.who + " requested " + x.grant() + x.with(", ", x.text("match")) + x.with("; approvers: ", x.list("groups"))
	},
	RequestRepeated: func(x told) string { return x.who + " requested the same again" },
	RequestHeld: func(x told) string {
		return "a request for " + x.text("scope") + " was throttled, because people were asked too often"
	},
	RequestVoted: func(x told) string {
		if x.data["approve"] != true {
			return x.who + " denied the request" + x.with(" ", x.text("match")) + " (" + spaced(x.text("code")) + ")" + x.because("note")
		}
		return x.who + " approved " + x.grant() + x.with(", ", x.text("match")) + x.because("note")
	},
	RequestApproved: func(x told) string { return "the request was approved, by the answer of " + x.who },
	RequestDenied: func(x told) string {
		return "the request was denied, by the answer of " + x.who + x.with(": ", spaced(x.text("code")))
	},
	RequestExpired:   func(told) string { return "the request expired without an answer, which denies it" },
	RequestWithdrawn: func(x told) string { return x.who + " withdrew the request" + x.because("why") },

	SecretStored:  func(x told) string { return x.who + " stored the secret " + x.text("name") },
	SecretRemoved: func(x told) string { return x.who + " removed the secret " + x.text("name") },

	TokenAsk: func(x told) string {
		return x.who + " needed an approval for " + x.text("scope") + " and could not wait"
	},
	TokenDenied: func(x told) string {
		return x.who + " was denied " + cmp.Or(x.text("scope"), "a credential") + x.because("why")
	},
	TokenLimited: func(x told) string { return x.who + " made requests too fast, and must wait" },
	TokenReplayed: func(x told) string {
		return x.who + " used a proof, ticket or assertion for the second time, and was refused"
	},

	LeaseIssued: func(x told) string {
		return x.who + " got a credential for " + x.text("scope") + x.with(", until ", x.time("exp")) + x.delivery()
	},
	LeaseRevoked:     func(x told) string { return x.who + " revoked the credential" + x.because("reason") },
	LeaseUndelivered: func(x told) string { return "the credential was minted and not delivered" + x.because("why") },

	LeaseIntended: func(x told) string {
		return "ebb is about to request a credential for " + x.text("scope") + " from " + x.text("provider")
	},
	LeaseAccepted: func(x told) string {
		return "the provider accepted the revocation, which takes effect within " + x.span("bound_seconds")
	},
	LeaseDead: func(x told) string {
		return "the credential is " + spaced(x.text("state")) + " at " + x.text("provider") + x.with(" (proof: ", x.text("proof"), ")")
	},
	LeaseUnconfirmed: func(x told) string {
		return x.text("provider") + " never confirmed the revocation; the credential's own expiry has passed"
	},
	LeaseForced:  func(x told) string { return x.who + " ended the pending revocation by hand" + x.because("reason") },
	LeaseRetried: func(x told) string { return x.who + " requested the next attempt of the revocation now" },
	LeaseStuck: func(x told) string {
		return "attempt " + x.text("attempts") + " to revoke the credential failed" + x.because("why")
	},
	OrphanRevoked: func(x told) string {
		return "a credential at " + x.text("provider") + " without a live lease was revoked"
	},
}

// text returns a member of the data: a text, a number, or a list with commas; "" = it is missing.
func (x told) text(name string) string {
	switch v := x.data[name].(type) {
	case string:
		return v
	case float64:
		return fmt.Sprintf("%.0f", v)
	case []any:
		return x.list(name)
	}
	return ""
}

// time returns a time in the data, formatted by clock. It returns any other text unchanged.
func (x told) time(name string) string {
	t, err := time.Parse(time.RFC3339, x.text(name))
	if err != nil {
		return x.text(name)
	}
	return x.clock(t)
}

func (x told) list(name string) string {
	items, _ := x.data[name].([]any)
	words := make([]string, 0, len(items))
	for _, item := range items {
		words = append(words, fmt.Sprint(item))
	}
	return strings.Join(words, ", ")
}

// with returns words around a text, and nothing without the text.
func (told) with(before, text string, after ...string) string {
	if text == "" {
		return ""
	}
	return before + text + strings.Join(after, "")
}

// because adds a text that a person, a sandbox or a third party wrote, or a reason of ebb.
func (x told) because(name string) string {
	if x.text(name) == "" {
		return ""
	}
	return ": " + Quote(strings.TrimSuffix(x.text(name), "."))
}

func (x told) count(format, name string) string {
	if n, _ := x.data[name].(float64); n > 0 {
		return fmt.Sprintf(format, int(n))
	}
	return ""
}

// short returns the first eight characters of a digest or key id.
func (x told) short(name string) string {
	s := x.text(name)
	return s[:min(len(s), 8)]
}

// span returns a member in seconds as minutes, hours or seconds.
func (x told) span(name string) string {
	n, _ := x.data[name].(float64)
	d := time.Duration(n) * time.Second
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// grant returns the scope and the lifetime of a request or an answer.
func (x told) grant() string { return x.text("scope") + " for " + x.span("ttl") }

// call returns the request, session or connection of an exchange through egress.
func (x told) call() string {
	what := x.text("method")
	if what == "" {
		what = x.text("protocol")
	}
	if what == "" {
		what = "a request"
	}
	return x.with("", what) + x.with(" ", x.text("host")) + x.text("path") + x.with(" (database ", x.quoted("database"), ")") + x.with(" (", x.operations(), ")")
}

// maxOperations is how many operations of a request a sentence names.
const maxOperations = 3

// operations returns what the body of a request does; "" = not read.
func (x told) operations() string {
	facts, _ := x.data["content"].(map[string]any)
	all, _ := facts["operations"].([]any)
	var words []string
	for i, item := range all {
		if i == maxOperations {
			words = append(words, fmt.Sprintf("%d more", len(all)-i))
			break
		}
		o, _ := item.(map[string]any)
		action, _ := o["action"].(string)
		object, _ := o["object"].(string)
		words = append(words, action+" "+Quote(object))
	}
	return strings.Join(words, ", ")
}

func (x told) outcome() string {
	out := " ended"
	if status := x.text("status"); status != "" {
		out = " was answered with status " + status
	}
	if x.data["cut"] == true {
		out += ", cut off"
	}
	return out + x.count(", %d secrets redacted", "redacted") + x.with(": ", spaced(x.text("reason")))
}

// delivery returns the clause for a credential that stays in ebb; "" for any other.
func (x told) delivery() string {
	if x.text("delivery") == "egress" {
		return "; it stays in ebb, which adds it to requests"
	}
	return ""
}

// quoted returns a member between quotation marks, and nothing without it.
func (x told) quoted(name string) string {
	if x.text(name) == "" {
		return ""
	}
	return Quote(x.text(name))
}

// number returns a count with its noun.
func (x told) number(name, noun string) string {
	n := cmp.Or(x.text(name), "no")
	if n != "1" {
		noun += "s"
	}
	return n + " " + noun
}

// spaced returns a code such as too_broad as words.
func spaced(code string) string { return strings.ReplaceAll(code, "_", " ") }

// Quote marks a text of a person, a sandbox or a third party, which cannot close the quotation.
func Quote(s string) string { return "“" + strings.Map(plainQuote, s) + "”" }

// plainQuote returns an apostrophe for every character that looks like a double quotation mark.
func plainQuote(r rune) rune {
	if strings.ContainsRune("\"“”„‟″‶〃״ˮʺ＂❝❞«»", r) {
		return '\''
	}
	return r
}
