"""STUB"""
import sys, types
class ClassFinder:
    def __init__(self, subject_class): self.subject=subject_class; self.reached={}
    def name_of(self, cls):
        self.reached.setdefault(self._n(cls), cls)
        return self._n(cls)
    def _n(self, cls):
        m = "." if cls.__module__==self.subject.__module__ else cls.__module__
        return f"{m}:{cls.__qualname__}"
    def register(self, cls): self.reached[self._n(cls)] = cls
    def find(self, name):
        if name in self.reached: return self.reached[name]
        m,_,q=name.partition(":"); o=sys.modules[self.subject.__module__ if m=="." else m]
        for p in q.split("."): o=getattr(o,p)
        return o
    def name_of_function(self, f): return self._n(f)
    find_function=find
    def name_of_module(self, m): return m.__name__
    def find_module(self, n): return sys.modules[n]

class LostNameError(LookupError): pass
