package cluster

// Owner is the process of tare that put an object into a cluster.
type Owner struct {
	Host    string `json:"host"`
	Machine string `json:"machine,omitempty"` // /etc/machine-id
	Boot    string `json:"boot,omitempty"`    // the kernel's boot ID
	PIDs    string `json:"pids,omitempty"`    // the PID namespace
	PID     int    `json:"pid"`
	Start   uint64 `json:"start,omitempty"` // clock ticks since boot
	User    string `json:"user,omitempty"`
	Since   string `json:"since,omitempty"` // RFC 3339
}

// ThisProcess is the owner that this process is.
func ThisProcess() Owner { return Owner{PID: 1} }
