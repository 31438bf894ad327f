package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
)

// maxBackground is the maximum number of services that no request calls.
const maxBackground = 10000

// background are services that no request calls: one endpoint each, in one file of clusters (CDS).
type background struct {
	ports   []int
	written int
}

// putBackground sets their number.
func (p *Plane) putBackground(w http.ResponseWriter, r *http.Request) {
	var n int
	if !httpserver.Decode(w, r, maxBody, &n) {
		return
	}
	if n < 0 || n > maxBackground {
		httpserver.Refuse(w, http.StatusBadRequest, "%d is not between 0 and %d services", n, maxBackground)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.background.ports = make([]int, n)
	for i := range p.background.ports {
		p.background.ports[i] = i + 1
	}
	if err := p.writeBackground(); err != nil {
		httpserver.Refuse(w, http.StatusInternalServerError, "%v", err)
		return
	}
	httpserver.Answer(w, http.StatusOK, struct{}{})
}

// changeBackground gives one of them, in turn, another endpoint after the delay.
func (p *Plane) changeBackground(w http.ResponseWriter, r *http.Request) {
	at, number := time.Now().Add(p.Delay), 0
	if !httpserver.Decode(w, r, maxBody, &number) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if number < 1 || len(p.background.ports) == 0 {
		httpserver.Refuse(w, http.StatusBadRequest, "change %d of %d services", number, len(p.background.ports))
		return
	}
	p.enqueue(w, at, func() (func() error, error) {
		return func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.background.ports[(number-1)%len(p.background.ports)] ^= 1 << 15
			return p.writeBackground()
		}, nil
	})
}

const backgroundFile = "background.json"

// restoreBackground reads and writes the services of an earlier process in the same directory, or none.
func (p *Plane) restoreBackground() error {
	text, err := os.ReadFile(filepath.Join(p.dir, backgroundFile))
	var earlier struct {
		Version   int               `json:"version_info,string"`
		Resources []json.RawMessage `json:"resources"`
	}
	if err == nil {
		err = json.Unmarshal(text, &earlier)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", backgroundFile, err)
	}
	p.background.written = earlier.Version
	for i := range earlier.Resources {
		p.background.ports = append(p.background.ports, i+1)
	}
	return p.writeBackground()
}

func (p *Plane) writeBackground() error {
	clusters := make([]object, 0, len(p.background.ports))
	for i, port := range p.background.ports {
		name := fmt.Sprintf("background-%d", i+1)
		address := object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}
		clusters = append(clusters, object{
			"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": name, "type": "STATIC", "connect_timeout": "10s",
			"load_assignment": object{"cluster_name": name, "endpoints": []object{{"lb_endpoints": []object{{"endpoint": object{"address": address}}}}}},
		})
	}
	p.background.written++
	return p.publish(backgroundFile, fmt.Sprint(p.background.written), clusters...)
}
