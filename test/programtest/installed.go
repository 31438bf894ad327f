package programtest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// ServersScript unpacks Debian's servers into the user's cache.
const ServersScript = "tools/servers/install.sh"

// Server is the path of one of Debian's servers, and the directories of its libraries, with colons between.
func Server(t testing.TB, name string) (path, libraries string) {
	t.Helper()
	cache := must.Get(os.UserCacheDir())(t)
	root := filepath.Join(cache, "tare", "servers", "usr")
	found, _ := filepath.Glob(filepath.Join(root, "lib", "*-linux-gnu"))
	libraries = strings.Join(found, ":")
	for _, dir := range []string{"sbin", "bin"} {
		if path := filepath.Join(root, dir, name); exists(path) {
			return path, libraries
		}
	}
	return Installed(t, name, ServersScript), libraries
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// Chromium is the path of the browser. TARE_CHROMIUM overrides it.
func Chromium(t testing.TB) string {
	t.Helper()
	return Installed(t, cmp.Or(os.Getenv("TARE_CHROMIUM"), "chromium"), PageScript)
}

// PagePackages is the directory with the packages of Node.js, which is installed too.
func PagePackages(t testing.TB) string {
	t.Helper()
	Installed(t, "node", PageScript)
	cache := must.Get(os.UserCacheDir())(t)
	packages := filepath.Join(cache, "tare", "page")
	if _, err := os.Stat(filepath.Join(packages, "complete")); err != nil {
		Missing(t, err, PageScript)
	}
	return packages
}

// Python is a program of an environment of Python with packages, such as duckdb==2.0.0. The first test that needs it installs
// them from PyPI into the user's cache.
func Python(t testing.TB, program string, packages ...string) string {
	t.Helper()
	cache := must.Get(os.UserCacheDir())(t)
	dir := filepath.Join(cache, "tare", "python", strings.ReplaceAll(strings.Join(packages, "_"), "==", "-"))
	path, done := filepath.Join(dir, "bin", program), filepath.Join(dir, "installed")
	if exists(done) {
		return path
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		append([]string{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check"}, packages...),
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("install %q: %v: %v\n%s", packages, args, err, out)
		}
	}
	must.OK(t, os.WriteFile(done, nil, 0o600))
	return path
}

// Installed is the path of a program on PATH.
func Installed(t testing.TB, name, script string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, err, script)
	}
	return path
}

// PageScript installs Chromium, tmux and the packages of Node.js.
const PageScript = "tools/page/install.sh"

// Missing ends a test whose program a script installs. The test is skipped, but it fails with CI=true. With -short
// it is always skipped, because CI runs `make test` before it installs programs.
func Missing(t testing.TB, err error, script string) {
	t.Helper()
	message := fmt.Sprintf("%v: run %s", err, script)
	if os.Getenv("CI") == "true" && !testing.Short() {
		t.Fatal(message)
	}
	t.Skip(message)
}
