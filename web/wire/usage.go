package wire

import "time"

// UsageBy is how credentials are grouped in Usage.
type UsageBy string

// Groupings of Usage.
const (
	UsageByScope UsageBy = "scope" // by provider, scope and tool
	UsageByOwner UsageBy = "owner"
	UsageByTask  UsageBy = "task" // by task and its owner
)

// Usage compares the credentials that were issued with those that were used through egress.
type Usage struct {
	// From is the beginning of the window. It is later than requested when there are too many credentials.
	From time.Time `json:"from"`
	// Cut says that From is later than requested.
	Cut bool `json:"cut"`
	// UsesFrom is since when Uses and LastUsed are summed up.
	UsesFrom time.Time `json:"uses_from"`
	// At is when it was counted.
	At time.Time `json:"at"`
	// By is the grouping.
	By UsageBy `json:"by"`
	// HandedOut is the number of credentials since From that are not delivered by egress.
	HandedOut int `json:"handed_out"`
	// Carried is the number of those by which egress carried an SSH connection.
	Carried int `json:"carried"`
	// Items are the groups, those with the most unused credentials first.
	Items []GrantUsage `json:"items"`
	// More says that there are more groups than Items.
	More bool `json:"more"`
}

// GrantUsage is one group of Usage.
type GrantUsage struct {
	// Provider is the provider, in UsageByScope.
	Provider string `json:"provider,omitempty"`
	// Scope is the scope, in UsageByScope.
	Scope string `json:"scope,omitempty"`
	// Tool is the tool, in UsageByScope; "" = any of the task's.
	Tool string `json:"tool,omitempty"`
	// Owner is the owner, in UsageByOwner and UsageByTask.
	Owner string `json:"owner,omitempty"`
	// TaskID is the task, in UsageByTask.
	TaskID string `json:"task_id,omitempty"`
	// Issued is the number of credentials.
	Issued int `json:"issued"`
	// Used is the number of credentials that were used at least once.
	Used int `json:"used"`
	// Unused is the number of credentials that have ended and were never used.
	Unused int `json:"unused"`
	// Uses is the number of requests and sessions that egress let through since Usage.UsesFrom.
	Uses int `json:"uses"`
	// LastUsed is the last of those; zero = none since Usage.UsesFrom.
	LastUsed time.Time `json:"last_used,omitzero"`
}
