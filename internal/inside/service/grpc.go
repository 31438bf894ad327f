package service

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// The gRPC service:
//
//	package tare.v1;
//	message Payload { bytes payload = 1; }
//	service Service { rpc Call(Payload) returns (Payload); }
//
// Its descriptor is built here instead of generated. Payload has the wire format
// of google.protobuf.BytesValue, which is used to read and write it.
const (
	grpcService = "tare.v1.Service"
	callMethod  = app.GRPCMethod
	grpcFile    = "tare/v1/service.proto"
)

// maxMessage is the max size of a gRPC message in bytes: the largest body and
// its header.
const maxMessage = MaxResponseSize + 16

func describe(file, pkg string, messages []*descriptorpb.DescriptorProto, service, method, request, response string) *descriptorpb.FileDescriptorProto {
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String(file), Package: proto.String(pkg), Syntax: proto.String("proto3"), MessageType: messages,
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String(service),
			Method: []*descriptorpb.MethodDescriptorProto{{
				Name: proto.String(method), InputType: proto.String("." + pkg + "." + request), OutputType: proto.String("." + pkg + "." + response),
			}},
		}},
	}
}

func message(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: proto.String(name), Field: fields}
}

func field(number int32, name string, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), JsonName: proto.String(name), Number: proto.Int32(number),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: kind.Enum(),
	}
}

var serviceFile = describe(grpcFile, "tare.v1",
	[]*descriptorpb.DescriptorProto{message("Payload", field(1, "payload", descriptorpb.FieldDescriptorProto_TYPE_BYTES))},
	"Service", "Call", "Payload", "Payload")

// caller is the interface of the gRPC handler.
type caller interface {
	Call(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: grpcService,
	HandlerType: (*caller)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			return srv.(caller).Call(ctx, in)
		},
	}},
	Metadata: grpcFile,
}

// register adds the health service for all services of the server, and
// reflection for the described files.
func register(server *grpc.Server, files ...*descriptorpb.FileDescriptorProto) error {
	known := new(protoregistry.Files)
	for _, f := range files {
		d, err := protodesc.NewFile(f, known)
		if err != nil {
			return err
		}
		if err := known.RegisterFile(d); err != nil {
			return err
		}
	}
	healthy := health.NewServer() // the empty service name is the whole server
	for name := range server.GetServiceInfo() {
		healthy.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(server, healthy)
	for _, d := range []string{grpc_health_v1.File_grpc_health_v1_health_proto.Path()} {
		if _, err := known.FindFileByPath(d); err != nil {
			if err := known.RegisterFile(grpc_health_v1.File_grpc_health_v1_health_proto); err != nil {
				return err
			}
		}
	}
	options := reflection.ServerOptions{Services: server, DescriptorResolver: known}
	grpc_reflection_v1.RegisterServerReflectionServer(server, reflection.NewServerV1(options))
	grpc_reflection_v1alpha.RegisterServerReflectionServer(server, reflection.NewServer(options))
	return nil
}

func newGRPCServer(s *Service) (*grpc.Server, error) {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxConcurrentStreams(1<<20))
	server.RegisterService(&serviceDesc, s)
	return server, register(server, serviceFile)
}

// Call implements the gRPC method.
func (s *Service) Call(ctx context.Context, _ *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	s.count.requests.Add(1)
	n := s.now.Load()
	start := time.Now()
	answer, code, err := s.callGRPC(ctx, n)
	if err != nil {
		s.count.failed.Add(1)
	}
	s.metrics.observe(n, code, time.Since(start))
	return answer, err
}

func (s *Service) callGRPC(ctx context.Context, n *snapshot) (*wrapperspb.BytesValue, int, error) {
	result := outcome{status: n.status}
	if n.work {
		var in incoming
		if len(n.steps) > 0 {
			if md, ok := metadata.FromIncomingContext(ctx); ok {
				in.alone, in.trace = isAlone(app.AloneHeader, md), traceOf(traceHeaders, md)
			}
		}
		result = s.do(ctx, n, in)
	}
	if result.status/100 != 2 {
		err := result.err
		if err == nil {
			err = errors.New(http.StatusText(result.status))
		}
		return nil, result.status, status.Error(codeOf(result.status), err.Error())
	}
	size := n.size
	if size < 0 {
		size = n.instance.ResponseSize.Draw()
	}
	return &wrapperspb.BytesValue{Value: filled(size)}, result.status, nil
}

// grpcCodes maps an HTTP status to the gRPC code of the same meaning
// (google.rpc.Code).
var grpcCodes = map[int]codes.Code{
	http.StatusBadRequest: codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated,
	http.StatusForbidden: codes.PermissionDenied, http.StatusNotFound: codes.NotFound,
	http.StatusConflict: codes.Aborted, http.StatusPreconditionFailed: codes.FailedPrecondition,
	http.StatusTooManyRequests: codes.ResourceExhausted, statusGone: codes.Canceled,
	http.StatusInternalServerError: codes.Internal, http.StatusNotImplemented: codes.Unimplemented,
	http.StatusBadGateway: codes.Unavailable, http.StatusServiceUnavailable: codes.Unavailable,
	http.StatusGatewayTimeout: codes.DeadlineExceeded,
}

func codeOf(status int) codes.Code {
	if c, ok := grpcCodes[status]; ok {
		return c
	}
	return codes.Unknown
}
