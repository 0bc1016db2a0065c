package mcp

import "encoding/json"

// What tools take. A test compares them with what the reader of arguments takes.
var (
	requestInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["scope"],"properties":{
		"scope":{"type":"string","minLength":1,"maxLength":2048,"description":"What it is for: one or more provider:resource:action of one provider, separated by spaces, such as orders:eu/42:read. Ask for no more than this step needs."},
		"reason":{"type":"string","maxLength":4000,"description":"Why, for the person who may have to decide. It is shown as the agent's words."},
		"tool":{"type":"string","maxLength":64,"description":"Name of the tool that will use it."},
		"resource":{"type":"string","maxLength":2048,"description":"Where it will be used, a URL, when the scope does not say (RFC 8707)."},
		"ttl_seconds":{"type":"integer","minimum":0,"maximum":86400,"description":"How long it is needed; policy may say less. 0: as policy says."},
		"wait_seconds":{"type":"integer","minimum":0,"maximum":50,"description":"How long this call may wait for a person. 0: answer at once with the state pending."}}}`)
	getInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["request_id"],"properties":{
		"request_id":{"type":"string","pattern":"^req_[0-9a-f]{32}$","description":"As request_credential answered it."},
		"wait_seconds":{"type":"integer","minimum":0,"maximum":50,"description":"How long this call may wait for the answer."}}}`)
	revokeInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["lease_id"],"properties":{
		"lease_id":{"type":"string","pattern":"^lse_[0-9a-f]{32}$","description":"As request_credential or list_credentials answered it."}}}`)
	emptyInput = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`)
)

const givenProperties = `"lease_id":{"type":"string"},"scope":{"type":"string"},"resource":{"type":"string"},"tool":{"type":"string"},
	"state":{"type":"string","enum":["intent","live","revoking","revoked","expired","unconfirmed"]},
	"issued_at":{"type":"string","format":"date-time"},"expires_at":{"type":"string","format":"date-time"},"revoked_at":{"type":"string","format":"date-time"}`

// What tools answer. Nothing in it is a credential.
var (
	outcomeOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["state","scope","do_next"],"properties":{
		"state":{"type":"string","enum":["issued","pending","by_command"]},
		"scope":{"type":"string","description":"What was granted, which may be less than asked; while pending, what was asked."},
		"do_next":{"type":"string"},
		"request_id":{"type":"string"},
		"request_url":{"type":"string","description":"Where a person decides; absent where ebb is on loopback, of which do_next says how."},
		"expires_in_seconds":{"type":"integer","description":"No answer of a person by then is a no."},
		"lease_id":{"type":"string"},
		"placeholder":{"type":"string","description":"Stands for the credential; only ebb's egress proxy can replace it, and only for this box."},
		"resource":{"type":"string"},
		"endpoint":{"type":"object","additionalProperties":false,"required":["protocol","host","database"],"description":"Where the placeholder is the password of sessions.","properties":{
			"protocol":{"type":"string"},"host":{"type":"string","description":"With its port."},"database":{"type":"string"}}},
		"expires_at":{"type":"string","format":"date-time"},
		"command":{"type":"array","items":{"type":"string"},"description":"By which a tool of this sandbox gets the credential without showing it here."}}}`)
	givenOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["lease_id","scope","state","issued_at","expires_at"],"properties":{` + givenProperties + `}}`)
	listOutput  = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["credentials","pending"],"properties":{
		"credentials":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["lease_id","scope","state","issued_at","expires_at"],"properties":{` + givenProperties + `}}},
		"pending":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["request_id","scope"],"properties":{
			"request_id":{"type":"string"},"request_url":{"type":"string"},"scope":{"type":"string"}}}}}}`)
	completeOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["revoked","already_expired","withdrawn_pending","owed"],"properties":{
		"revoked":{"type":"integer"},"already_expired":{"type":"integer"},"withdrawn_pending":{"type":"integer"},
		"owed":{"type":"integer","description":"Credentials of third parties that are not yet known to be dead there; ebb refuses them."}}}`)
)
