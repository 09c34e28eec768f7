from regard.engine.library import find_library
from regard.engine.plan import Plan, Unsupported, describe, plan
