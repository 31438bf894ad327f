package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// Change is a change of the services of a running trial by hand.
type Change struct {
	Trial  string `json:"trial,omitempty"` // empty: all that run now
	Target string `json:"target"`          // a service, or one of its replicas
	Patch  string `json:"patch"`           // JSON merge patch of its configuration
}

// Limits of the socket of a run.
const (
	maxServicesBody    = 1 << 20 // bytes
	servicesTimeout    = time.Minute
	servicesHeaderTime = 5 * time.Second
)

// Replicas returns the replicas of services in the trials that a run, of another process, has now. dir is its results
// directory.
func Replicas(ctx context.Context, dir string) (all []runner.Replica, err error) {
	return all, callRun(ctx, dir, http.MethodGet, nil, &all)
}

// ChangeServices changes services of a run of another process.
func ChangeServices(ctx context.Context, dir string, c Change) (made []result.ByHand, err error) {
	return made, callRun(ctx, dir, http.MethodPatch, c, &made)
}

// callRun sends a request to the run of a results directory. The socket has mode 0700 of this user's directory.
func callRun(ctx context.Context, dir, method string, body, answer any) error {
	socket, err := servicesSocket(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, servicesTimeout)
	defer cancel()
	over := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	err = httpserver.Call(ctx, over, "", method, "http://run/services", body, maxServicesBody, answer)
	_, refused := errors.AsType[*httpserver.Refused](err)
	switch {
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED):
		return hint.New("`tare run` of this user must be running it on this machine, with the same TMPDIR", "no run of %s answers", dir)
	case err == nil || refused:
		return err
	}
	return fmt.Errorf("call the run of %s: %w", dir, err)
}

// servicesSocket is the path of the socket of a run, in a directory of this user alone.
func servicesSocket(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", dir, err)
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	sum := sha256.Sum256([]byte(at))
	return filepath.Join(os.TempDir(), "tare-services-"+strconv.Itoa(os.Getuid()), hex.EncodeToString(sum[:8])), nil
}

// serveServices answers the requests of `tare services` to the run until stop is called.
func serveServices(ctx context.Context, dir string, services *runner.Services) (stop func(), err error) {
	socket, err := servicesSocket(dir)
	if err != nil {
		return nil, err
	}
	l, err := listenAlone(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("listen for `tare services`: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	server := &http.Server{Handler: servicesHandler(services), ReadHeaderTimeout: servicesHeaderTime, ReadTimeout: servicesTimeout}
	go routine.Guarded(func() {
		defer close(ended)
		_ = httpserver.Serve(ctx, l, server)
	})()
	return func() { cancel(); <-ended }, nil
}

// listenAlone listens on a socket in a directory that only this user can enter. A socket of a dead run is replaced: the
// results directory is locked, so that no other run has it.
func listenAlone(ctx context.Context, socket string) (net.Listener, error) {
	dir := filepath.Dir(socket)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(owner.Uid) != os.Getuid() {
		return nil, fmt.Errorf("%s is not a directory of this user alone", dir)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return new(net.ListenConfig).Listen(ctx, "unix", socket)
}

func servicesHandler(services *runner.Services) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /services", func(w http.ResponseWriter, r *http.Request) {
		httpserver.Answer(w, http.StatusOK, services.Replicas(r.Context()))
	})
	mux.HandleFunc("PATCH /services", httpserver.Handle(maxServicesBody, func(r *http.Request, c Change) (any, error) {
		made, err := services.Change(r.Context(), c.Trial, c.Target, c.Patch)
		if err != nil {
			return nil, httpserver.Fail(http.StatusUnprocessableEntity, "%w", err)
		}
		return made, nil
	}))
	return mux
}
