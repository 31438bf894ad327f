package console

import "runtime/debug"

// buildVersion is set by the Makefile from git: a build in a work tree may not record its version.
var buildVersion string

// Version is the one that the build of this program recorded: a release's tag, or the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if buildVersion != "" {
		return buildVersion
	}
	return "devel"
}
