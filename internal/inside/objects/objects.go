// Package objects writes background services to a Kubernetes API server: a Service and an EndpointSlice each, whose endpoints no pod
// has. A control plane reads them there as it reads others.
package objects

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Writer writes to an API server on this machine. It answers GET /ready when the API server is ready, PUT /background with the number of
// services, and PUT /background/change with the number of a change.
type Writer struct {
	*httpserver.TokenServer
	server, bearer string
	client         *http.Client
	services       atomic.Int64 // that it has written
}

const (
	atOnce       = 16 // requests
	maxBody      = 64 // bytes of a number
	readyTimeout = time.Minute
)

// New returns a writer to an API server with an HTTPS URL. Its certificate is not verified, because it makes one at its start.
func New(token, server, bearer string) (*Writer, error) {
	s, err := httpserver.NewTokenServer(token)
	if err != nil {
		return nil, err
	}
	over := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: atOnce, ForceAttemptHTTP2: true}
	w := &Writer{TokenServer: s, server: server, bearer: bearer, client: &http.Client{Transport: over}}
	w.HandleFunc("GET /ready", w.getReady)
	w.HandleFunc("PUT /background", httpserver.Handle(maxBody, w.putBackground))
	w.HandleFunc("PUT /background/change", httpserver.Handle(maxBody, w.putChange))
	return w, nil
}

// Serve serves on l until ctx ends.
func (w *Writer) Serve(ctx context.Context, l net.Listener) error {
	defer w.client.CloseIdleConnections()
	return w.TokenServer.Serve(ctx, l)
}

func (w *Writer) getReady(rw http.ResponseWriter, r *http.Request) {
	if err := w.send(r.Context(), http.MethodGet, "/readyz", "", nil); err != nil {
		httpserver.Refuse(rw, http.StatusServiceUnavailable, "%v", err)
		return
	}
	httpserver.Answer(rw, http.StatusOK, struct{}{})
}

type object = map[string]any

const (
	namespace = "default"
	slices    = "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices"
)

func (w *Writer) putBackground(r *http.Request, n int) (done struct{}, err error) {
	if err := mesh.CheckBackground(n); err != nil {
		return done, httpserver.Fail(http.StatusBadRequest, "%w", err)
	}
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(atOnce)
	ports := []object{{"name": "http", "port": 80}}
	for i := range n {
		group.Go(routine.Guarded(func() error {
			metadata := object{"name": mesh.BackgroundName(i), "labels": object{"kubernetes.io/service-name": mesh.BackgroundName(i)}}
			service := object{"metadata": object{"name": mesh.BackgroundName(i)}, "spec": object{"ports": ports}}
			if err := w.create(ctx, "/api/v1/namespaces/"+namespace+"/services", service); err != nil {
				return err
			}
			return w.create(ctx, slices, object{"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints(0)})
		}))
	}
	if err := group.Wait(); err != nil {
		return done, httpserver.Fail(http.StatusBadGateway, "%w", err)
	}
	w.services.Store(int64(n))
	return done, nil
}

// create creates an object. The namespace may not exist at first.
func (w *Writer) create(ctx context.Context, path string, o object) error {
	return wait.Within(ctx, readyTimeout, 100*time.Millisecond, func(ctx context.Context) error {
		return w.send(ctx, http.MethodPost, path, "application/json", o)
	})
}

// putChange gives a service, in turn, the address of a change.
func (w *Writer) putChange(r *http.Request, number int) (done struct{}, err error) {
	n := int(w.services.Load())
	if err := mesh.CheckBackgroundChange(number, n); err != nil {
		return done, httpserver.Fail(http.StatusBadRequest, "%w", err)
	}
	err = w.send(r.Context(), http.MethodPatch, slices+"/"+mesh.BackgroundName((number-1)%n), "application/merge-patch+json", object{"endpoints": endpoints(number)})
	if err != nil {
		return done, httpserver.Fail(http.StatusBadGateway, "%w", err)
	}
	return done, nil
}

func endpoints(change int) []object {
	return []object{{"addresses": []string{mesh.BackgroundAddress(change)}, "conditions": object{"ready": true}}}
}

// maxRefusal is the maximum size of a refusal's text, in bytes.
const maxRefusal = 500

func (w *Writer) send(ctx context.Context, method, path, media string, body any) error {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // of texts and numbers
	}
	r, err := http.NewRequestWithContext(ctx, method, w.server+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+w.bearer)
	r.Header.Set("Content-Type", media)
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return nil
}
