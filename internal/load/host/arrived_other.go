//go:build !linux

package host

// Arrived reports whether the peer's system acknowledged any of the last written bytes of a
// connection: unknown on this system.
func Arrived(int32, int) bool { return true }
