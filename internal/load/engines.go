package load

import (
	"runtime"
)

// Portable reports whether the portable engine carries out p.
func (p *Profile) Portable() bool {
	return p.Engine == EnginePortable || NativeEngine() == EnginePortable
}

// Engines by the names that [Profile.Engine] and [Report.Engine] have for them.
const (
	EngineEpoll    = "epoll"    // Linux only
	EnginePortable = "portable" // every system
	EngineHTTP3    = "http3"    // quic-go, in the program tare-kube
)

// NativeEngine is the engine that this operating system gets by default.
func NativeEngine() string {
	if runtime.GOOS == "linux" {
		return EngineEpoll
	}
	return EnginePortable
}
