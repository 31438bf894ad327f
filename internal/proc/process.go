package proc

// Process is a running command.
type Process struct {
	PID int
}
