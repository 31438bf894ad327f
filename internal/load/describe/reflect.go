package describe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// Limits of what a server describes.
const (
	maxDescription = 64 << 20 // bytes of one answer, and of all files
	maxFiles       = 2000
)

// reflectionMethods are the versions of the service, the newer first. Their messages are equal.
var reflectionMethods = []string{
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

// reflected is a source that asks a server.
type reflected struct {
	ctx    context.Context
	conn   *grpc.ClientConn
	host   string
	stream grpc.ClientStream
	known  map[string]*descriptorpb.FileDescriptorProto // by path
	fresh  []*descriptorpb.FileDescriptorProto          // of these, those whose imports are yet to be added
	all    *dynamicpb.Types                             // of the last service
	size   int                                          // bytes of the known files
}

// reflectOn connects to the target of p as the load does.
func reflectOn(ctx context.Context, p *load.Profile) (source, func(), error) {
	q := p.WithDefaults()
	q.Protocol = load.ProtocolGRPC
	targets, err := target.Resolve(ctx, &q, nil, net.DefaultResolver.LookupNetIP)
	if err != nil {
		return nil, nil, err
	}
	t := &targets[0]
	secured := insecure.NewCredentials()
	if t.TLS != nil {
		secured = credentials.NewTLS(t.TLS)
	}
	conn, err := grpc.NewClient("passthrough:///"+t.URL.Host, grpc.WithTransportCredentials(secured), grpc.WithAuthority(t.URL.Host),
		grpc.WithUserAgent("tare"), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxDescription)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			network, address := t.Dial()
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))
	if err != nil {
		return nil, nil, err
	}
	for _, line := range q.Headers {
		name, value, _ := strings.Cut(line, ":")
		if name = strings.ToLower(name); name != "host" && name != "content-type" {
			ctx = metadata.AppendToOutgoingContext(ctx, name, strings.TrimSpace(value))
		}
	}
	r := &reflected{ctx: ctx, conn: conn, host: t.URL.Host, known: map[string]*descriptorpb.FileDescriptorProto{}}
	if err := r.start(); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return r, func() { _ = conn.Close() }, nil
}

// start opens the stream of the first version that the server has.
func (r *reflected) start() error {
	var err error
	for _, name := range reflectionMethods {
		r.stream, err = r.conn.NewStream(r.ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, name)
		if err == nil {
			_, err = r.services()
		}
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	return r.explain(err)
}

func (r *reflected) services() ([]string, error) {
	a, err := r.ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{ListServices: "*"}})
	if err != nil {
		return nil, err
	}
	return printable.Texts(a.GetListServicesResponse().GetService(), (*reflectionpb.ServiceResponse).GetName), nil
}

// service finds a service with all files that its file imports.
func (r *reflected) service(name string) (protoreflect.ServiceDescriptor, error) {
	err := r.add(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}})
	if c := status.Code(err); c == codes.NotFound || c == codes.Unknown {
		return nil, fmt.Errorf("service %.80s: %w", name, errNotFound)
	}
	if err != nil {
		return nil, r.explain(err)
	}
	if err := r.complete(); err != nil {
		return nil, err
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range r.known {
		set.File = append(set.File, f)
	}
	f, err := filesOf(set)
	if err != nil {
		return nil, fmt.Errorf("description of %.80s by %s: %w", name, r.host, err)
	}
	r.all = f.resolver
	return f.service(name)
}

// explain adds to the error of a call what helps.
func (r *reflected) explain(err error) error {
	switch s := status.Convert(err); s.Code() {
	case codes.OK:
		return nil
	case codes.Unimplemented:
		return hint.New("give the definition of the service: --proto FILE, with --import-path DIR for its imports",
			"%s has no reflection service", r.host)
	case codes.Unauthenticated, codes.PermissionDenied:
		return hint.New("-H 'authorization: …' adds credentials, and --proto FILE needs no reflection", "reflection on %s: %s", r.host, s.Message())
	case codes.Unavailable, codes.DeadlineExceeded:
		return hint.New("grpcs:// uses TLS, grpc:// does not", "%s: %s", r.host, s.Message())
	default:
		return fmt.Errorf("reflection on %s: %s: %s", r.host, s.Code(), s.Message())
	}
}

func (r *reflected) types() *dynamicpb.Types { return r.all }

// complete adds the imports that are absent. Those that the server lacks are taken from this program, or stay unresolved.
func (r *reflected) complete() error {
	tried := map[string]bool{}
	for len(r.fresh) > 0 {
		f := r.fresh[0]
		r.fresh = r.fresh[1:]
		for _, name := range f.GetDependency() {
			if r.known[name] != nil || tried[name] {
				continue
			}
			tried[name] = true
			err := r.add(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: name}})
			if err == nil {
				continue
			}
			if _, fromServer := status.FromError(err); !fromServer || r.ctx.Err() != nil {
				return err
			}
			if d, err := protoregistry.GlobalFiles.FindFileByPath(name); err == nil {
				r.addFile(protodesc.ToFileDescriptorProto(d))
			}
		}
	}
	return nil
}

// add adds the files of an answer.
func (r *reflected) add(q *reflectionpb.ServerReflectionRequest) error {
	a, err := r.ask(q)
	if err != nil {
		return err
	}
	for _, b := range a.GetFileDescriptorResponse().GetFileDescriptorProto() {
		f := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(b, f); err != nil {
			return fmt.Errorf("description by %s: %w", r.host, err)
		}
		if r.known[f.GetName()] != nil {
			continue
		}
		if r.size += len(b); r.size > maxDescription || len(r.known) >= maxFiles {
			return fmt.Errorf("%s describes more than %d files or %d bytes", r.host, maxFiles, maxDescription)
		}
		r.addFile(f)
	}
	return nil
}

// ask sends a request and returns the answer to it.
func (r *reflected) ask(q *reflectionpb.ServerReflectionRequest) (*reflectionpb.ServerReflectionResponse, error) {
	if err := r.stream.SendMsg(q); err != nil && !isEnd(err) {
		return nil, err
	}
	a := &reflectionpb.ServerReflectionResponse{}
	if err := r.stream.RecvMsg(a); err != nil {
		return nil, err
	}
	if e := a.GetErrorResponse(); e != nil {
		return nil, status.Error(codes.Code(e.ErrorCode), e.ErrorMessage)
	}
	return a, nil
}

// addFile adds a file that is new.
func (r *reflected) addFile(f *descriptorpb.FileDescriptorProto) {
	if r.known[f.GetName()] == nil {
		r.known[f.GetName()] = f
		r.fresh = append(r.fresh, f)
	}
}

// isEnd reports whether err means that the stream has ended and RecvMsg returns its status.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }
