#!/usr/bin/env python3
"""Prints frontend/schema.def from the descriptors of an installed TensorFlow.

  python3 frontend/schema.py > frontend/schema.def

The file is committed; this is for a newer TensorFlow only.
"""
from google.protobuf.descriptor import FieldDescriptor as F
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import graph_pb2, variable_pb2
from tensorflow.core.protobuf import (meta_graph_pb2, saved_model_pb2, tensor_bundle_pb2,
                                      trackable_object_graph_pb2)

ROOTS = [graph_pb2.GraphDef, meta_graph_pb2.MetaGraphDef, saved_model_pb2.SavedModel,
         tensor_bundle_pb2.BundleHeaderProto, tensor_bundle_pb2.BundleEntryProto,
         trackable_object_graph_pb2.TrackableObjectGraph, variable_pb2.VariableDef,
         example_pb2.Example]
KIND = {F.TYPE_DOUBLE: 'DOUBLE', F.TYPE_FLOAT: 'FLOAT', F.TYPE_INT64: 'INT64',
        F.TYPE_UINT64: 'UINT64', F.TYPE_INT32: 'INT32', F.TYPE_FIXED64: 'FIXED64',
        F.TYPE_FIXED32: 'FIXED32', F.TYPE_BOOL: 'BOOL', F.TYPE_STRING: 'STRING',
        F.TYPE_MESSAGE: 'MESSAGE', F.TYPE_BYTES: 'BYTES', F.TYPE_UINT32: 'UINT32',
        F.TYPE_ENUM: 'ENUM', F.TYPE_SFIXED32: 'SFIXED32', F.TYPE_SFIXED64: 'SFIXED64',
        F.TYPE_SINT32: 'SINT32', F.TYPE_SINT64: 'SINT64'}


def name(d):
    return d.full_name.replace('google.protobuf.', '').replace('tensorflow.', '').replace('.', '_')


def main():
    messages, enums = {}, {}

    def walk(d):
        if d.full_name in messages:
            return
        messages[d.full_name] = d
        for f in d.fields:
            if f.message_type:
                walk(f.message_type)
            if f.enum_type:
                enums[f.enum_type.full_name] = f.enum_type

    for r in ROOTS:
        walk(r.DESCRIPTOR)
    print('/* Messages of TensorFlow that we read and write; printed by frontend/schema.py.')
    print(' *')
    print(' * MESSAGE(name, full name, is a map entry), then its fields in the order of their numbers:')
    print(' * FIELD(number, name, kind, 1 if repeated, message or enum, oneof or -1), END(name).')
    print(' * Then the enums.  Whoever includes this defines all six macros; they are undefined at the end. */')
    print('/* clang-format off */')
    for full in sorted(messages):
        d = messages[full]
        n = name(d)
        print(f'MESSAGE({n}, "{full}", {int(d.GetOptions().map_entry)})')
        for f in sorted(d.fields, key=lambda f: f.number):
            ref = 'none'
            if f.message_type:
                ref = 'message_' + name(f.message_type)
            if f.enum_type:
                ref = 'enum_' + name(f.enum_type)
            one = f.containing_oneof.index if f.containing_oneof else -1
            repeated = int(f.is_repeated)
            print(f'\tFIELD({f.number}, "{f.name}", {KIND[f.type]}, {repeated}, {ref}, {one})')
        print(f'END({n})')
    for full in sorted(enums):
        e = enums[full]
        n = name(e)
        print(f'ENUM({n}, "{full}")')
        for v in e.values:
            print(f'\tENUMERATOR("{v.name}", {v.number})')
        print(f'END_ENUM({n})')
    for macro in ['MESSAGE', 'FIELD', 'END', 'ENUM', 'ENUMERATOR', 'END_ENUM']:
        print('#undef ' + macro)
    print('/* clang-format on */')


main()
