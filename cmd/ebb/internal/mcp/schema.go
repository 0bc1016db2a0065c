package mcp

import "encoding/json"

// Input of the tools. A test compares the schemas with the parser of arguments.
var (
	requestInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["scope"],"properties":{
		"scope":{"type":"string","minLength":1,"maxLength":2048,"description":"Requested access: one or more provider:resource:action of one provider, separated by spaces, such as orders:eu/42:read. Request no more than this step needs."},
		"reason":{"type":"string","maxLength":4000,"description":"Why it is needed. Approvers see it marked as text of the agent."},
		"tool":{"type":"string","maxLength":64,"description":"Name of the tool that will use the credential."},
		"resource":{"type":"string","maxLength":2048,"description":"URL of the API where it will be used, if the scope does not determine it (RFC 8707)."},
		"ttl_seconds":{"type":"integer","minimum":0,"maximum":86400,"description":"Requested lifetime; policy may shorten it. 0: the lifetime that policy sets."},
		"wait_seconds":{"type":"integer","minimum":0,"maximum":50,"description":"How long this call may wait for an approval. 0: return at once with the state pending."}}}`)
	getInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["request_id"],"properties":{
		"request_id":{"type":"string","pattern":"^req_[0-9a-f]{32}$","description":"The request_id that request_credential returned."},
		"wait_seconds":{"type":"integer","minimum":0,"maximum":50,"description":"How long this call may wait for the decision."}}}`)
	revokeInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["lease_id"],"properties":{
		"lease_id":{"type":"string","pattern":"^lse_[0-9a-f]{32}$","description":"The lease_id that request_credential or list_credentials returned."}}}`)
	emptyInput = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`)
)

const givenProperties = `"lease_id":{"type":"string"},"scope":{"type":"string"},"resource":{"type":"string"},"tool":{"type":"string"},
	"state":{"type":"string","enum":["intent","live","revoking","revoked","expired","unconfirmed"]},
	"issued_at":{"type":"string","format":"date-time"},"expires_at":{"type":"string","format":"date-time"},"revoked_at":{"type":"string","format":"date-time"}`

// Output of the tools. It never contains a credential.
var (
	outcomeOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["state","scope","do_next"],"properties":{
		"state":{"type":"string","enum":["issued","pending","by_command"]},
		"scope":{"type":"string","description":"The granted scope, which may be less than requested; while pending, the requested one."},
		"do_next":{"type":"string"},
		"request_id":{"type":"string"},
		"request_url":{"type":"string","description":"Page where the request is decided; absent if ebb is on loopback, see do_next."},
		"expires_in_seconds":{"type":"integer","description":"Without a decision by then the request is denied."},
		"lease_id":{"type":"string"},
		"placeholder":{"type":"string","description":"Stands for the credential; only ebb's egress proxy can replace it, and only for this sandbox."},
		"resource":{"type":"string"},
		"endpoint":{"type":"object","additionalProperties":false,"required":["protocol","host","database"],"description":"Database where the placeholder is the password.","properties":{
			"protocol":{"type":"string"},"host":{"type":"string","description":"Host and port."},"database":{"type":"string"}}},
		"expires_at":{"type":"string","format":"date-time"},
		"command":{"type":"array","items":{"type":"string"},"description":"Command by which a tool in this sandbox gets the credential without showing it here."}}}`)
	givenOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["lease_id","scope","state","issued_at","expires_at"],"properties":{` + givenProperties + `}}`)
	listOutput  = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["credentials","pending"],"properties":{
		"credentials":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["lease_id","scope","state","issued_at","expires_at"],"properties":{` + givenProperties + `}}},
		"pending":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["request_id","scope"],"properties":{
			"request_id":{"type":"string"},"request_url":{"type":"string"},"scope":{"type":"string"}}}}}}`)
	completeOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["revoked","already_expired","withdrawn_pending","pending_revocations"],"properties":{
		"revoked":{"type":"integer"},"already_expired":{"type":"integer"},"withdrawn_pending":{"type":"integer"},
		"pending_revocations":{"type":"integer","description":"Credentials whose revocation at a third party is pending; ebb refuses them."}}}`)
)
