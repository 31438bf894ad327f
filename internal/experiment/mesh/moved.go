package mesh

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
)

// Moved are the revisions of a mesh before and after a version change, as the cluster ran them.
type Moved struct {
	From    RevisionImages `json:"from"`           // that the application left
	To      RevisionImages `json:"to"`             // that it moved to
	Proxies int            `json:"proxies"`        // new proxies
	Left    []string       `json:"left,omitempty"` // pods of these that do not run the new version: the change is not complete
}

// RevisionImages are the images of a revision of a mesh.
type RevisionImages struct {
	Version string   `json:"version"` // tag of the images of the control plane
	Control []string `json:"control"` // images of the control plane
	Proxies []string `json:"proxies"` // images of the proxies of the application
}

// Begin takes the images of both control planes, and of the proxies of each pod before the move.
func (m *Moved) Begin(from, to []string, pods map[string][]string) {
	m.From = RevisionImages{versionOf(from), from, distinct(pods)}
	m.To = RevisionImages{Version: versionOf(to), Control: to}
}

// End takes the images of the proxies of each new pod. chosen is the image that the user gives them, empty for the image of
// their version.
func (m *Moved) End(pods map[string][]string, chosen string) {
	m.To.Proxies = distinct(pods)
	for pod, images := range pods {
		m.Proxies += len(images)
		if slices.ContainsFunc(images, func(image string) bool { return !m.isNew(image, chosen) }) {
			m.Left = append(m.Left, pod)
		}
	}
	slices.Sort(m.Left)
}

// isNew reports whether the image of a new proxy is of the new version. If control plane and proxies had one tag before, they must
// have one again. Proxies with versions of their own must have another image than before.
func (m *Moved) isNew(image, chosen string) bool {
	switch {
	case chosen != "":
		return strings.Contains(image, chosen)
	case versionOf(m.From.Proxies) == m.From.Version:
		return tagOf(image) == m.To.Version
	case m.From.Version == m.To.Version:
		return true
	}
	return !slices.Contains(m.From.Proxies, image)
}

// distinct are the images of all pods, each once.
func distinct(pods map[string][]string) (all []string) {
	for _, images := range pods {
		all = append(all, images...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// versionOf is the tag of images, several with commas between.
func versionOf(images []string) string {
	tags := printable.Texts(images, tagOf)
	slices.Sort(tags)
	return strings.Join(slices.Compact(tags), ", ")
}

// tagOf is the tag of an image, or its digest if it has none.
func tagOf(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	if _, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":"); tagged {
		return tag
	}
	return cmp.Or(digest, "latest")
}
